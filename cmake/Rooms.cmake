# headwise_add_room(NAME SOURCES ... LINKS ... [TORCH]): one folder, one static library headwise_NAME.
# With TORCH the room sees libtorch (and shares one precompiled header); without it, a torch include
# cannot compile.
function(headwise_add_room name)
  cmake_parse_arguments(ROOM "TORCH" "" "SOURCES;LINKS" ${ARGN})
  if(ROOM_TORCH AND NOT HEADWISE_TORCH)
    return()
  endif()
  add_library(headwise_${name} STATIC ${ROOM_SOURCES})
  add_library(headwise::${name} ALIAS headwise_${name})
  # What holds for this tree alone is kept from installed targets (cmake/Package.cmake).
  target_include_directories(headwise_${name} PUBLIC "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>")
  target_link_libraries(headwise_${name} PUBLIC ${ROOM_LINKS}
                                         PRIVATE "$<BUILD_INTERFACE:headwise_flags>")
  if(ROOM_TORCH)
    target_link_libraries(headwise_${name} PUBLIC "$<BUILD_INTERFACE:headwise::torch>")
    headwise_use_pch(headwise_${name})
  endif()
endfunction()

# The precompiled torch header, built once and reused by every target that sees torch.
function(headwise_use_pch target)
  if(NOT TARGET headwise_pch)
    file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/pch.cpp" CONTENT "")  # leaves an equal file untouched
    add_library(headwise_pch STATIC "${CMAKE_BINARY_DIR}/pch.cpp")
    target_link_libraries(headwise_pch PUBLIC headwise::torch PRIVATE headwise_flags)
    target_precompile_headers(headwise_pch PRIVATE "${PROJECT_SOURCE_DIR}/cmake/torch_pch.h")
  endif()
  target_precompile_headers(${target} REUSE_FROM headwise_pch)
  # gcc takes a precompiled header only with the flags it was made with, and executables get -fPIE.
  # -fpch-preprocess lets ccache hit on files that use one.
  target_compile_options(${target} PRIVATE -fPIC -fpch-preprocess)
endfunction()

# headwise_add_test(NAME SOURCES ... LINKS ... LABELS ... [TORCH]): a GoogleTest program, built by the
# target headwise_tests (not by `all`: who only wants the product need not wait for it). The source
# files are remembered so that a *_test.cpp file nobody registered fails the configure step.
if(HEADWISE_TESTS)
  add_custom_target(headwise_tests)
endif()
function(headwise_add_test name)
  cmake_parse_arguments(TEST "TORCH" "" "SOURCES;LINKS;LABELS" ${ARGN})
  foreach(source IN LISTS TEST_SOURCES)
    set_property(GLOBAL APPEND PROPERTY HEADWISE_TEST_SOURCES "${CMAKE_CURRENT_SOURCE_DIR}/${source}")
  endforeach()
  if(TEST_TORCH AND NOT HEADWISE_TORCH)
    return()
  endif()
  add_executable(${name} EXCLUDE_FROM_ALL ${TEST_SOURCES})
  add_dependencies(headwise_tests ${name})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_link_libraries(${name} PRIVATE ${TEST_LINKS} GTest::gtest GTest::gtest_main headwise_flags)
  if(TEST_TORCH)
    target_link_libraries(${name} PRIVATE headwise::torch)
    headwise_use_pch(${name})
  endif()
  include(GoogleTest)
  # Listing the tests loads libtorch, which takes longer than CMake's 5 s when the disk is cold.
  gtest_discover_tests(
    ${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 300 PROPERTIES LABELS "${TEST_LABELS}" TIMEOUT 300)
endfunction()

function(headwise_check_every_test_is_registered)
  if(NOT HEADWISE_TRAINER)
    return()  # the tests of the trainer's rooms are rightly absent
  endif()
  get_property(registered GLOBAL PROPERTY HEADWISE_TEST_SOURCES)
  file(GLOB_RECURSE present CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/*_test.cpp")
  foreach(file IN LISTS present)
    if(NOT file IN_LIST registered)
      message(FATAL_ERROR "${file} is not registered: add it to a headwise_add_test() call in the "
                          "CMakeLists.txt of its folder")
    endif()
  endforeach()
endfunction()
