# LibTorch: from CMAKE_PREFIX_PATH, else from a PyTorch wheel, else from the distribution.
find_package(Torch QUIET PATHS ${CMAKE_PREFIX_PATH} NO_DEFAULT_PATH)
if(NOT Torch_FOUND)
  find_package(Python3 QUIET COMPONENTS Interpreter)
  set(NO_WHEEL 1)
  if(Python3_FOUND)
    execute_process(COMMAND ${Python3_EXECUTABLE} -c "import torch; print(torch.utils.cmake_prefix_path)"
                    OUTPUT_VARIABLE WHEEL_PREFIX OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET
                    RESULT_VARIABLE NO_WHEEL)
  endif()
  if(NOT NO_WHEEL)
    list(APPEND CMAKE_PREFIX_PATH ${WHEEL_PREFIX})
  endif()
  find_package(Torch REQUIRED)
endif()
message(STATUS "LibTorch ${Torch_VERSION} at ${TORCH_INSTALL_PREFIX}")

find_package(OpenMP REQUIRED COMPONENTS CXX)
# The distribution's LibTorch takes its matrix products from the system's BLAS. OpenBLAS's own threads and
# OpenMP's compete for the cores (the step of an MLP takes 3 times as long), so programs prefer the OpenMP variant.
find_file(OPENMP_BLAS libblas.so.3 PATHS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-openmp NO_DEFAULT_PATH)
if(OPENMP_BLAS AND TORCH_INSTALL_PREFIX STREQUAL "/usr")
  get_filename_component(OPENMP_BLAS_DIR ${OPENMP_BLAS} DIRECTORY)
  list(APPEND CMAKE_BUILD_RPATH ${OPENMP_BLAS_DIR})
  list(APPEND CMAKE_INSTALL_RPATH ${OPENMP_BLAS_DIR})
  string(APPEND CMAKE_EXE_LINKER_FLAGS " -Wl,--disable-new-dtags")  # RPATH instead of RUNPATH: also searched for indirect dependencies
endif()
# What users of the library need: LibTorch, its include folders as system ones, and OpenMP for at::parallel_for.
add_library(covnoise_torch INTERFACE)
target_link_libraries(covnoise_torch INTERFACE ${TORCH_LIBRARIES} OpenMP::OpenMP_CXX)
target_include_directories(covnoise_torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
# The same for the operators: only torch_cpu and c10 of LibTorch.
add_library(covnoise_torch_cpu INTERFACE)
target_link_libraries(covnoise_torch_cpu INTERFACE $<TARGET_FILE:torch_cpu> $<TARGET_FILE:c10>)
target_compile_definitions(covnoise_torch_cpu INTERFACE $<TARGET_PROPERTY:torch,INTERFACE_COMPILE_DEFINITIONS>)
target_compile_options(covnoise_torch_cpu INTERFACE $<TARGET_PROPERTY:torch,INTERFACE_COMPILE_OPTIONS>)
target_include_directories(covnoise_torch_cpu SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})

add_library(covnoise_warnings INTERFACE)
# -fPIC: one precompiled header for all targets; no path of the build machine in messages.
target_compile_options(covnoise_warnings INTERFACE -Wall -Wextra -fPIC -fmacro-prefix-map=${CMAKE_SOURCE_DIR}/=)

if(COVNOISE_OPS_ONLY)
  return()
endif()
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
find_package(PNG REQUIRED)
find_package(JPEG)                      # optional: JPEG files in folder: data sets
find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(CAIRO QUIET cairo)  # optional: figures as PNG; SVG needs no library
endif()
if(NOT CAIRO_FOUND)
  message(STATUS "cairo not found: figures as SVG only, no PNG")
endif()
find_package(CURL REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(fmt REQUIRED)
# The compiled library, except with a PyTorch wheel, which brings headers of another version without the library.
set(COVNOISE_FMT fmt::fmt)
if(NOT TORCH_INSTALL_PREFIX STREQUAL "/usr" AND EXISTS "${TORCH_INSTALL_PREFIX}/include/fmt/format.h")
  set(COVNOISE_FMT fmt::fmt-header-only)
endif()
# Header-only; on a machine without the package it is in third_party/include (docs/development.md).
find_path(TOMLPP_INCLUDE toml++/toml.h HINTS ${CMAKE_CURRENT_SOURCE_DIR}/third_party/include REQUIRED)

add_library(tomlplusplus INTERFACE)
target_include_directories(tomlplusplus SYSTEM INTERFACE ${TOMLPP_INCLUDE})
add_library(covnoise_jpeg INTERFACE)
if(JPEG_FOUND)
  target_link_libraries(covnoise_jpeg INTERFACE JPEG::JPEG)
endif()
add_library(covnoise_cairo INTERFACE)
if(CAIRO_FOUND)
  target_include_directories(covnoise_cairo SYSTEM INTERFACE ${CAIRO_INCLUDE_DIRS})
  target_link_libraries(covnoise_cairo INTERFACE ${CAIRO_LINK_LIBRARIES})
endif()
