# Warnings, sanitizers and the compiler cache: what every target is compiled with.
add_library(headwise_flags INTERFACE)
target_compile_options(headwise_flags INTERFACE -Wall -Wextra -Wshadow=local -Wnon-virtual-dtor
                                                -Wno-unknown-pragmas)
if(HEADWISE_SANITIZE)
  target_compile_options(headwise_flags INTERFACE -fsanitize=address,undefined
                                                  -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(headwise_flags INTERFACE -fsanitize=address,undefined)
endif()

find_program(HEADWISE_CCACHE ccache)
if(HEADWISE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Precompiled headers carry time stamps; without this ccache would never hit on files that use one.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      "${CMAKE_COMMAND}" -E env
      "CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime"
      "${HEADWISE_CCACHE}")
endif()
