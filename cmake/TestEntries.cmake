# Adds a test program to ctest: one entry per suite or per test (EACH: SUITE or TEST). GoogleTest's own module adds one
# per test, and loading LibTorch takes half a second per process, which for hundreds of short tests is most of their
# time.
function(covnoise_add_tests target each)
  set(base ${CMAKE_CURRENT_BINARY_DIR}/${target})
  # Read by ctest: lists the tests again if the program is newer.
  file(GENERATE OUTPUT ${base}_include.cmake CONTENT "\
if(NOT EXISTS \"$<TARGET_FILE:${target}>\")
  add_test(${target}_NOT_BUILT ${target}_NOT_BUILT)
  return()
endif()
if(\"$<TARGET_FILE:${target}>\" IS_NEWER_THAN \"${base}_entries.cmake\")
  execute_process(COMMAND ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:${target}> -DEACH=${each}
                          -DLIST=${base}_entries.cmake -P ${PROJECT_SOURCE_DIR}/cmake/ListTests.cmake)
endif()
include(\"${base}_entries.cmake\" OPTIONAL)
")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${base}_include.cmake)
endfunction()
