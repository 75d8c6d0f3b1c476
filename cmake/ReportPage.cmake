# Fetches the charting library once, into the build folder. A build without npm or network has no report page, and
# `covnoise report` says so. Configuring again (as script/build does) tries again.
set(REPORT_SOURCE ${CMAKE_CURRENT_SOURCE_DIR}/web/report)
set(REPORT_BUILD ${CMAKE_CURRENT_BINARY_DIR}/report)
set(REPORT_LIBRARY ${REPORT_BUILD}/node_modules/uplot)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${REPORT_SOURCE}/package.json
                                                               ${REPORT_SOURCE}/package-lock.json)
file(MAKE_DIRECTORY ${REPORT_BUILD})

# Fetched again if the lockfile has changed.
file(SHA256 ${REPORT_SOURCE}/package-lock.json REPORT_LOCK)
set(REPORT_INSTALLED "")
if(EXISTS ${REPORT_BUILD}/installed AND EXISTS ${REPORT_LIBRARY}/dist/uPlot.iife.min.js)
  file(READ ${REPORT_BUILD}/installed REPORT_INSTALLED)
endif()
if(NOT REPORT_INSTALLED STREQUAL REPORT_LOCK)
  find_program(NPM npm)
  set(NPM_FAILED "npm is not installed")
  if(NPM)
    configure_file(${REPORT_SOURCE}/package.json ${REPORT_BUILD}/package.json COPYONLY)
    configure_file(${REPORT_SOURCE}/package-lock.json ${REPORT_BUILD}/package-lock.json COPYONLY)
    execute_process(COMMAND ${NPM} ci --ignore-scripts --no-audit --no-fund --fetch-retries=2
                            --fetch-retry-mintimeout=2000 --fetch-retry-maxtimeout=5000
                    WORKING_DIRECTORY ${REPORT_BUILD} RESULT_VARIABLE NPM_FAILED OUTPUT_QUIET ERROR_QUIET TIMEOUT 120)
  endif()
  if(NPM_FAILED)
    message(STATUS "covnoise report left out of this build: no uPlot (npm ci: ${NPM_FAILED})")
    set(REPORT_LIBRARY "")
  else()
    file(WRITE ${REPORT_BUILD}/installed ${REPORT_LOCK})
  endif()
endif()

# The library's path is part of the command, so the page is made again when it appears or disappears.
set(REPORT_PAGE ${CMAKE_CURRENT_BINARY_DIR}/generated/report_page.cpp)
file(GLOB REPORT_FILES CONFIGURE_DEPENDS ${REPORT_SOURCE}/*.js ${REPORT_SOURCE}/*.css ${REPORT_SOURCE}/*.html)
add_custom_command(OUTPUT ${REPORT_PAGE}
                   COMMAND ${CMAKE_COMMAND} -DSOURCE=${REPORT_SOURCE} -DLIBRARY=${REPORT_LIBRARY}
                           -DOUTPUT=${REPORT_PAGE} -P ${CMAKE_CURRENT_SOURCE_DIR}/cmake/EmbedReportPage.cmake
                   DEPENDS ${REPORT_FILES} ${REPORT_SOURCE}/package-lock.json
                           ${CMAKE_CURRENT_SOURCE_DIR}/cmake/EmbedReportPage.cmake
                   COMMENT "Embedding the report page" VERBATIM)
target_sources(covnoise_study PRIVATE ${REPORT_PAGE})
set_source_files_properties(${REPORT_PAGE} PROPERTIES SKIP_PRECOMPILE_HEADERS ON
                                           SKIP_UNITY_BUILD_INCLUSION ON)
