# The commit that was built (build_info.h). It is looked up at every build: neither a commit nor an edit configures again.
set(COVNOISE_COMMIT "" CACHE STRING "The commit to record, for a source tree without git; empty: ask git")
find_package(Git QUIET)
set(BUILD_COMMIT ${CMAKE_CURRENT_BINARY_DIR}/generated/build_commit.cpp)
add_custom_target(covnoise_commit
                  COMMAND ${CMAKE_COMMAND} -DSOURCE=${CMAKE_CURRENT_SOURCE_DIR} -DOUTPUT=${BUILD_COMMIT}
                          -DGIT=${GIT_EXECUTABLE} -DCOMMIT=${COVNOISE_COMMIT}
                          -P ${CMAKE_CURRENT_SOURCE_DIR}/cmake/RecordCommit.cmake
                  BYPRODUCTS ${BUILD_COMMIT} COMMENT "Looking up the commit" VERBATIM)
target_sources(covnoise PRIVATE ${BUILD_COMMIT})
set_source_files_properties(${BUILD_COMMIT} PROPERTIES SKIP_PRECOMPILE_HEADERS ON SKIP_UNITY_BUILD_INCLUSION ON)
add_dependencies(covnoise covnoise_commit)
