# LibTorch from the Python wheel, as a target of our own.
include(TorchWheel)

if(NOT Python_EXECUTABLE AND EXISTS "${PROJECT_SOURCE_DIR}/.venv/bin/python")
  set(Python_EXECUTABLE "${PROJECT_SOURCE_DIR}/.venv/bin/python")
endif()
find_package(Python REQUIRED COMPONENTS Interpreter Development.Module)

headwise_torch_of_python("${Python_EXECUTABLE}" HEADWISE_TORCH_DIR)
if(NOT HEADWISE_TORCH_DIR)
  message(
    FATAL_ERROR
      "torch was not found by ${Python_EXECUTABLE}. Headwise is built against the torch it will run "
      "with: run scripts/setup, or first pip install 'torch>=2.9' scikit-build-core cmake ninja, then "
      "pip install --no-build-isolation .")
endif()
headwise_torch_version("${HEADWISE_TORCH_DIR}" HEADWISE_TORCH_VERSION)
string(REGEX MATCH "^[0-9]+\\.[0-9]+" HEADWISE_TORCH_RELEASE "${HEADWISE_TORCH_VERSION}")
if(HEADWISE_TORCH_RELEASE VERSION_LESS 2.9)
  message(FATAL_ERROR "torch ${HEADWISE_TORCH_VERSION} was found in ${HEADWISE_TORCH_DIR}; "
                      "Headwise needs torch 2.9 or newer.")
endif()
message(STATUS "torch ${HEADWISE_TORCH_VERSION} in ${HEADWISE_TORCH_DIR}")

set(HEADWISE_TORCH_LIB "${HEADWISE_TORCH_DIR}/lib")
add_library(headwise_torch INTERFACE)
add_library(headwise::torch ALIAS headwise_torch)
headwise_describe_torch(headwise_torch "${HEADWISE_TORCH_DIR}")
