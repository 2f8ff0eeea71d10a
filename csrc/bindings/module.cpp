// headwise._C: importing it loads the op library, whose registrars make torch.ops.headwise.*; the
// functions of the Python package call those. Only what is no operator is bound here.
#include <c10/util/Exception.h>
#include <torch/csrc/utils/pybind.h>

#include <exception>

#include "csrc/nn/key_value_cache.h"
#include "csrc/ops/attention.h"

namespace py = pybind11;
using headwise::nn::KeyValueCache;

namespace {

/// A bad value is a ValueError in Python too, in one sentence without the C++ stack.
void translate(std::exception_ptr pointer) {
  try {
    if (pointer) std::rethrow_exception(pointer);
  } catch (const c10::ValueError& error) {
    py::set_error(PyExc_ValueError, error.what_without_backtrace());
  } catch (const c10::Error& error) {
    py::set_error(PyExc_RuntimeError, error.what_without_backtrace());
  }
}

}  // namespace

PYBIND11_MODULE(_C, module) {
  py::register_local_exception_translator(translate);
  module.def("statistics_names", &headwise::statistics_names,
             "Names of the columns of attention_statistics.");
  py::class_<KeyValueCache>(
      module, "KeyValueCache",
      "Keys and values of earlier decoding steps, (rows, kv_heads, capacity,\n"
      "head_dim), allocated once. Decoding only: no gradient flows through it.")
      .def(py::init([](int64_t rows, int64_t kv_heads, int64_t capacity, int64_t head_dim,
                       at::ScalarType dtype, at::Device device) {
             const auto options = at::TensorOptions().dtype(dtype).device(device);
             return KeyValueCache(rows, kv_heads, capacity, head_dim, options);
           }),
           py::arg("rows"), py::arg("kv_heads"), py::arg("capacity"), py::arg("head_dim"),
           py::kw_only(), py::arg("dtype") = at::kFloat, py::arg("device") = at::Device(at::kCPU))
      .def("append", &KeyValueCache::append, py::arg("key"), py::arg("value"),
           "Appends (R, kv_heads, T, head_dim) keys and values; raises before writing if full.")
      .def("reorder", &KeyValueCache::reorder, py::arg("parents"),
           "Live row r continues row parents[r] (int64, (R)); moves 4 bytes a position.")
      .def_property_readonly("length", &KeyValueCache::length)
      .def_property_readonly("capacity", &KeyValueCache::capacity)
      .def_property_readonly("live_rows", &KeyValueCache::live_rows)
      .def_property_readonly("nbytes", &KeyValueCache::bytes)
      .def_property_readonly("keys", &KeyValueCache::keys)
      .def_property_readonly("values", &KeyValueCache::values)
      .def_property_readonly("beam_index", &KeyValueCache::beam_index,
                             "(R, capacity) int32: cache row that holds each position.");
}
