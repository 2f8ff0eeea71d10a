# LibTorch from the Python wheel, as targets of our own. The wheel's own TorchConfig.cmake is not
# used: on a CUDA wheel it needs the CUDA toolkit at configure time, even for a CPU-only build.

if(NOT Python_EXECUTABLE AND EXISTS "${PROJECT_SOURCE_DIR}/.venv/bin/python")
  set(Python_EXECUTABLE "${PROJECT_SOURCE_DIR}/.venv/bin/python")
endif()
find_package(Python REQUIRED COMPONENTS Interpreter Development.Module)

# pip's isolated build (plain `pip install .`) hides the packages of the environment it installs into;
# torch is looked up in that environment's own folder then.
execute_process(
  COMMAND
    "${Python_EXECUTABLE}" -c
    "import importlib.util as u, os, sysconfig as c; s = u.find_spec('torch'); \
p = s.submodule_search_locations[0] if s else os.path.join(c.get_path('platlib'), 'torch'); \
print(p if os.path.isfile(os.path.join(p, 'version.py')) else '')"
  OUTPUT_VARIABLE HEADWISE_TORCH_DIR
  OUTPUT_STRIP_TRAILING_WHITESPACE)
if(NOT HEADWISE_TORCH_DIR)
  message(
    FATAL_ERROR
      "torch was not found by ${Python_EXECUTABLE}. Headwise is built against the torch it will run "
      "with: run scripts/setup, or first pip install 'torch>=2.9' scikit-build-core cmake ninja, then "
      "pip install --no-build-isolation .")
endif()
file(STRINGS "${HEADWISE_TORCH_DIR}/version.py" HEADWISE_TORCH_VERSION REGEX "^__version__ = ")
string(REGEX REPLACE "^__version__ = '([^']+)'.*" "\\1" HEADWISE_TORCH_VERSION
                     "${HEADWISE_TORCH_VERSION}")
string(REGEX MATCH "^[0-9]+\\.[0-9]+" HEADWISE_TORCH_RELEASE "${HEADWISE_TORCH_VERSION}")
if(HEADWISE_TORCH_RELEASE VERSION_LESS 2.9)
  message(FATAL_ERROR "torch ${HEADWISE_TORCH_VERSION} was found in ${HEADWISE_TORCH_DIR}; "
                      "Headwise needs torch 2.9 or newer.")
endif()
message(STATUS "torch ${HEADWISE_TORCH_VERSION} in ${HEADWISE_TORCH_DIR}")

set(HEADWISE_TORCH_LIB "${HEADWISE_TORCH_DIR}/lib")
add_library(headwise_torch INTERFACE)
add_library(headwise::torch ALIAS headwise_torch)
target_include_directories(headwise_torch SYSTEM
                           INTERFACE "${HEADWISE_TORCH_DIR}/include"
                                     "${HEADWISE_TORCH_DIR}/include/torch/csrc/api/include")
# at::parallel_for is an OpenMP region compiled into the caller: without -fopenmp, or with another
# libgomp than torch's own, it silently runs on one thread.
target_compile_options(headwise_torch INTERFACE -fopenmp)
file(GLOB HEADWISE_TORCH_GOMP "${HEADWISE_TORCH_LIB}/libgomp*.so*")
if(NOT HEADWISE_TORCH_GOMP)
  set(HEADWISE_TORCH_GOMP -fopenmp)
endif()
target_link_libraries(
  headwise_torch INTERFACE "${HEADWISE_TORCH_LIB}/libtorch.so" "${HEADWISE_TORCH_LIB}/libtorch_cpu.so"
                           "${HEADWISE_TORCH_LIB}/libc10.so" ${HEADWISE_TORCH_GOMP})
# libtorch_cpu of a CUDA wheel needs libraries that lie in the wheel's nvidia folder; it finds them at
# run time by its own RPATH, the linker need not.
# libstdc++ comes first: the wheel's libraries export std::filesystem functions of another compiler's
# library, and a program that finds those first crashes in remove_all.
target_link_options(headwise_torch INTERFACE -Wl,--no-as-needed -lstdc++
                    -Wl,--allow-shlib-undefined -Wl,--disable-new-dtags)
