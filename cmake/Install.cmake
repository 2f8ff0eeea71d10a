# The Python package and the program are pip's work: scikit-build-core names the two folders of the
# wheel, one for the package and one for programs. They are a component of their own that a plain
# `cmake --install` leaves out (that is for C++ users: Package.cmake), because a build folder that pip
# has used remembers the folders of its wheel.
#
# Every run path begins at $ORIGIN, so that an environment may be moved; torch's own folder comes
# first because its libraries need the libgomp that lies beside them. The folder torch was found in
# comes last, for a torch that is not in the same site-packages (another --target, say).

function(headwise_set_run_path target)
  set_target_properties(
    ${target} PROPERTIES INSTALL_RPATH "${ARGN};${HEADWISE_TORCH_LIB}" INSTALL_REMOVE_ENVIRONMENT_RPATH
                                                                        ON)
endfunction()

# Libraries and the Python module: into the package folder headwise/.
function(headwise_install_library target)
  headwise_set_run_path(${target} "$ORIGIN/../torch/lib" "$ORIGIN")
  if(NOT SKBUILD)
    return()
  endif()
  install(TARGETS ${target} LIBRARY DESTINATION "${SKBUILD_PLATLIB_DIR}/headwise"
                                    COMPONENT wheel EXCLUDE_FROM_ALL)
endfunction()

# Programs: beside python in the environment's scripts folder.
function(headwise_install_program target)
  if(NOT SKBUILD)
    return()
  endif()
  execute_process(
    COMMAND "${Python_EXECUTABLE}" -c
            "import os, sysconfig as s; print(os.path.relpath(s.get_path('platlib'), s.get_path('scripts')))"
    OUTPUT_VARIABLE site_packages
    OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  headwise_set_run_path(${target} "$ORIGIN/${site_packages}/torch/lib"
                        "$ORIGIN/${site_packages}/headwise")
  install(TARGETS ${target} RUNTIME DESTINATION "${SKBUILD_SCRIPTS_DIR}" COMPONENT wheel
                                    EXCLUDE_FROM_ALL)
endfunction()
