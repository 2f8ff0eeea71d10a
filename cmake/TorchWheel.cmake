# Where a torch wheel lies, which version it is, and how to link it. Used by the build and, installed
# as it is, by headwiseConfig.cmake. The wheel's own TorchConfig.cmake is not used: on a CUDA wheel it
# needs the CUDA toolkit at configure time, even for a CPU-only build.

# The torch folder that an interpreter would import, or "". pip's isolated build (plain `pip install .`)
# hides the packages of the environment it installs into; torch is looked up in that environment's
# own folder then.
function(headwise_torch_of_python python result)
  execute_process(
    COMMAND "${python}" -c
            "import importlib.util as u, os, sysconfig as c; s = u.find_spec('torch'); \
p = s.submodule_search_locations[0] if s else os.path.join(c.get_path('platlib'), 'torch'); \
print(p if os.path.isfile(os.path.join(p, 'version.py')) else '')"
    OUTPUT_VARIABLE folder
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  set(${result} "${folder}" PARENT_SCOPE)
endfunction()

# The version in a torch folder (2.11.0+cu130, say), or "" where none can be read.
function(headwise_torch_version folder result)
  set(version "")
  if(EXISTS "${folder}/version.py")
    file(STRINGS "${folder}/version.py" version REGEX "^__version__ = ")
    string(REGEX REPLACE "^__version__ = '([^']+)'.*" "\\1" version "${version}")
  endif()
  set(${result} "${version}" PARENT_SCOPE)
endfunction()

# Gives an INTERFACE target what a user of libtorch needs.
function(headwise_describe_torch target folder)
  target_include_directories(${target} SYSTEM INTERFACE "${folder}/include"
                                                        "${folder}/include/torch/csrc/api/include")
  # at::parallel_for is an OpenMP region compiled into the caller: without -fopenmp, or with another
  # libgomp than torch's own, it silently runs on one thread.
  target_compile_options(${target} INTERFACE -fopenmp)
  file(GLOB gomp "${folder}/lib/libgomp*.so*")
  if(NOT gomp)
    set(gomp -fopenmp)
  endif()
  target_link_libraries(
    ${target} INTERFACE "${folder}/lib/libtorch.so" "${folder}/lib/libtorch_cpu.so"
                        "${folder}/lib/libc10.so" ${gomp})
  # libtorch_cpu of a CUDA wheel needs libraries that lie in the wheel's nvidia folder; it finds them
  # at run time by its own RPATH, the linker need not.
  # libstdc++ comes first: the wheel's libraries export std::filesystem functions of another
  # compiler's library, and a program that finds those first crashes in remove_all.
  target_link_options(${target} INTERFACE -Wl,--no-as-needed -lstdc++ -Wl,--allow-shlib-undefined
                      -Wl,--disable-new-dtags)
endfunction()
