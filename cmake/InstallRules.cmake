# `cmake --install build` puts the program, the library and a find_package(covnoise) configuration in place.
include(CMakePackageConfigHelpers)
set(COVNOISE_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/covnoise)
set_target_properties(covnoise_program PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
install(TARGETS covnoise EXPORT covnoise_targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS covnoise_torch covnoise_private_dependencies covnoise_warnings EXPORT covnoise_targets)
install(TARGETS covnoise_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY include/covnoise DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
