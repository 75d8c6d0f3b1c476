# `cmake --install build` puts the program, the library, its headers and a find_package(covnoise) configuration in place.
include(CMakePackageConfigHelpers)
set(COVNOISE_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/covnoise)
set_target_properties(covnoise covnoise_program PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
set_target_properties(covnoise_program PROPERTIES INSTALL_RPATH
                      "$ORIGIN/../${CMAKE_INSTALL_LIBDIR};${CMAKE_INSTALL_RPATH}")
install(TARGETS covnoise LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS covnoise_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY include/covnoise DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
configure_package_config_file(cmake/covnoiseConfig.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/covnoiseConfig.cmake
                              INSTALL_DESTINATION ${COVNOISE_CMAKE_DIR}
                              PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/covnoiseConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/covnoiseConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/covnoiseConfigVersion.cmake
        DESTINATION ${COVNOISE_CMAKE_DIR})
