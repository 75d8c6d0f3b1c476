# `cmake --install build` installs the program, the libraries, their public headers and find_package(covnoise). Nothing
# installed contains a path of the source or build folder: the libraries find each other by $ORIGIN, and LibTorch where
# the system or LD_LIBRARY_PATH has it.
include(CMakePackageConfigHelpers)
set(COVNOISE_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/covnoise)
set(COVNOISE_LIBRARIES covnoise_ops covnoise covnoise_datasets covnoise_study)
set_target_properties(${COVNOISE_LIBRARIES} PROPERTIES INSTALL_RPATH "$ORIGIN;${CMAKE_INSTALL_RPATH}")
set_target_properties(covnoise_program PROPERTIES INSTALL_RPATH
                      "$ORIGIN/../${CMAKE_INSTALL_LIBDIR};${CMAKE_INSTALL_RPATH}")
install(TARGETS ${COVNOISE_LIBRARIES} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS covnoise_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY include/covnoise DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} PATTERN internal EXCLUDE)
configure_package_config_file(cmake/covnoiseConfig.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/covnoiseConfig.cmake
                              INSTALL_DESTINATION ${COVNOISE_CMAKE_DIR}
                              PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/covnoiseConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/covnoiseConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/covnoiseConfigVersion.cmake
        DESTINATION ${COVNOISE_CMAKE_DIR})
