# Installs Headwise, moves what was installed, and builds and runs the project of this folder against
# it, as a C++ user would. Needs -D BUILD (a finished build folder), WORK (made anew, removed again),
# COMPILER, NINJA, and CCACHE where there is one.

# check(WHAT command…): runs it; leaves its output in `output`. WHAT begins with "refused:" where the
# command has to fail.
function(check what)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE err)
  set(output "${out}${err}" PARENT_SCOPE)
  if(what MATCHES "^refused:")
    if(code EQUAL 0)
      message(FATAL_ERROR "${what} was not refused\n${out}${err}")
    endif()
  elseif(NOT code EQUAL 0)
    message(FATAL_ERROR "${what} failed with ${code}\n${out}${err}")
  endif()
endfunction()

# A linker or loader helped by the environment would hide a missing run path.
unset(ENV{LD_LIBRARY_PATH})
unset(ENV{LIBRARY_PATH})

file(REMOVE_RECURSE "${WORK}")
check("install" "${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${WORK}/installed")
file(RENAME "${WORK}/installed" "${WORK}/moved")

# The app's own run path would help the library; others may load it alone.
file(GLOB library "${WORK}/moved/lib*/libheadwise_ops.so")
check("ldd" ldd "${library}")
if(output MATCHES "[^\n]*not found")
  message(FATAL_ERROR "the installed library does not find what it needs: ${CMAKE_MATCH_0}")
endif()

set(configure "${CMAKE_COMMAND}" -S "${CMAKE_CURRENT_LIST_DIR}" -G Ninja
              "-DCMAKE_PREFIX_PATH=${WORK}/moved" "-DCMAKE_CXX_COMPILER=${COMPILER}"
              "-DCMAKE_MAKE_PROGRAM=${NINJA}" -DCMAKE_BUILD_TYPE=Release)
if(CCACHE)
  list(APPEND configure "-DCMAKE_CXX_COMPILER_LAUNCHER=${CCACHE}")
endif()

# Another torch, and none, are refused with what was found and what is needed.
file(WRITE "${WORK}/other/torch/version.py" "__version__ = '1.2.3+other'\n")
check("refused: torch 1.2.3" ${configure} -B "${WORK}/other/build"
      "-Dheadwise_TORCH_DIR=${WORK}/other/torch")
string(REGEX REPLACE "[ \n]+" " " output "${output}")
if(NOT output MATCHES "needs torch [0-9.]+[^ ]*, which it was built against; torch 1.2.3.other was found in [^ ]+/other/torch;")
  message(FATAL_ERROR "the refusal of another torch does not name both versions:\n${output}")
endif()
check("refused: a folder without torch" ${configure} -B "${WORK}/none/build"
      "-Dheadwise_TORCH_DIR=${WORK}/none/torch")
string(REGEX REPLACE "[ \n]+" " " output "${output}")
if(NOT output MATCHES "needs torch [0-9.]+[^ ]*; no torch was found .looked at: [^ ]+/none/torch")
  message(FATAL_ERROR "the refusal of a missing torch does not name the folder:\n${output}")
endif()

check("configure" ${configure} -B "${WORK}/app")
check("build" "${CMAKE_COMMAND}" --build "${WORK}/app" --parallel 1)
check("run" "${WORK}/app/app")
if(NOT output MATCHES "^([0-9]+\\.[0-9]+) -> ([0-9]+\\.[0-9]+)\n$")
  message(FATAL_ERROR "the app should print two losses; it printed: ${output}")
endif()
if(NOT CMAKE_MATCH_2 LESS CMAKE_MATCH_1)
  message(FATAL_ERROR "one step of training did not lower the loss: ${output}")
endif()
message(STATUS "the loss fell: ${output}")
file(REMOVE_RECURSE "${WORK}")  # scripts/setup hashes the libraries it finds in the build folder
