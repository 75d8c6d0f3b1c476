# One ctest entry for each suite of a test program. GoogleTest's own module makes one for each test, and loading LibTorch
# takes half a second a process: for hundreds of short tests that is most of their time.
function(covnoise_add_suites target)
  set(base ${CMAKE_CURRENT_BINARY_DIR}/${target})
  # Read by ctest: lists the suites again where the program is newer.
  file(GENERATE OUTPUT ${base}_include.cmake CONTENT "\
if(NOT EXISTS \"$<TARGET_FILE:${target}>\")
  add_test(${target}_NOT_BUILT ${target}_NOT_BUILT)
  return()
endif()
if(\"$<TARGET_FILE:${target}>\" IS_NEWER_THAN \"${base}_suites.cmake\")
  execute_process(COMMAND ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:${target}> -DLIST=${base}_suites.cmake
                          -P ${PROJECT_SOURCE_DIR}/cmake/ListSuites.cmake)
endif()
include(\"${base}_suites.cmake\" OPTIONAL)
")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${base}_include.cmake)
endfunction()
