# The package for C++ users: `cmake --install BUILD --prefix P`, then find_package(headwise).
#
# Public headers live in the rooms and include each other by their paths in this tree. What is
# installed is the same text with those paths turned into headwise/…; nothing is written twice.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(HEADWISE_PUBLIC_INCLUDE "${PROJECT_BINARY_DIR}/include")
set(HEADWISE_CONFIG_FOLDER "${CMAKE_INSTALL_LIBDIR}/cmake/headwise")

# headwise_publish_header(csrc/ops/attention.h headwise/attention.h)
function(headwise_publish_header source public)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/${source}")
  file(READ "${PROJECT_SOURCE_DIR}/${source}" text)
  string(REPLACE "#include \"csrc/ops/" "#include \"headwise/" text "${text}")
  string(REPLACE "#include \"csrc/nn/" "#include \"headwise/nn/" text "${text}")
  string(REGEX MATCHALL "#include \"[^\"]+\"" includes "${text}")
  foreach(include IN LISTS includes)
    set_property(GLOBAL APPEND PROPERTY HEADWISE_PUBLIC_INCLUDES "${include}|${source}")
  endforeach()
  set_property(GLOBAL APPEND PROPERTY HEADWISE_PUBLIC_HEADERS "#include \"${public}\"")
  file(WRITE "${HEADWISE_PUBLIC_INCLUDE}/${public}" "${text}")
endfunction()

# A public header must not include one that stays behind.
function(headwise_check_public_headers)
  get_property(includes GLOBAL PROPERTY HEADWISE_PUBLIC_INCLUDES)
  get_property(published GLOBAL PROPERTY HEADWISE_PUBLIC_HEADERS)
  foreach(pair IN LISTS includes)
    string(REGEX MATCH "^([^|]+)\\|(.+)$" _ "${pair}")
    if(NOT CMAKE_MATCH_1 IN_LIST published)
      message(FATAL_ERROR "${CMAKE_MATCH_2} is installed for C++ users, but what it includes is not: "
                          "${CMAKE_MATCH_1}; publish that in csrc/CMakeLists.txt too")
    endif()
  endforeach()
endfunction()

# headwise_install_package(TARGETS…): libraries, headers, and the files find_package reads.
function(headwise_install_package)
  headwise_check_public_headers()
  install(
    TARGETS ${ARGN}
    EXPORT headwiseTargets
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
    ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
    INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
  install(DIRECTORY "${HEADWISE_PUBLIC_INCLUDE}/headwise"
          DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
  install(EXPORT headwiseTargets NAMESPACE headwise:: DESTINATION "${HEADWISE_CONFIG_FOLDER}")

  set(generated "${PROJECT_BINARY_DIR}/package")
  configure_package_config_file(
    "${PROJECT_SOURCE_DIR}/cmake/headwiseConfig.cmake.in" "${generated}/headwiseConfig.cmake"
    INSTALL_DESTINATION "${HEADWISE_CONFIG_FOLDER}" NO_SET_AND_CHECK_MACRO
    NO_CHECK_REQUIRED_COMPONENTS_MACRO)
  write_basic_package_version_file("${generated}/headwiseConfigVersion.cmake"
                                   COMPATIBILITY SameMinorVersion)
  install(FILES "${generated}/headwiseConfig.cmake" "${generated}/headwiseConfigVersion.cmake"
                "${PROJECT_SOURCE_DIR}/cmake/TorchWheel.cmake"
          DESTINATION "${HEADWISE_CONFIG_FOLDER}")
endfunction()
