# The GPU kernels, src/cuda/**.cu, which nvcc compiles into objects without LibTorch. If LibTorch has CUDA, they and
# their bindings become part of the library; otherwise the target cuda_kernels compiles them if nvcc is installed, so
# that they stay correct (script/test builds it).
option(COVNOISE_CUDA "CUDA kernels where nvcc and a LibTorch for CUDA are found" ON)
set(COVNOISE_HAS_CUDA OFF)
find_program(COVNOISE_NVCC nvcc HINTS ENV CUDACXX /usr/local/cuda/bin)
file(GLOB_RECURSE CUDA_BINDINGS CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/src/cuda/*.cpp)
if(NOT COVNOISE_CUDA OR NOT COVNOISE_NVCC)
  message(STATUS "no CUDA kernels: nvcc not found, or COVNOISE_CUDA is OFF")
  return()
endif()

set(CUDA_OBJECTS "")
file(GLOB_RECURSE CUDA_SOURCES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/src/cuda/*.cu)
file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/cuda)
# The kernels with Hopper's instructions run on Hopper only; the others are built for every architecture that nvcc knows.
set(COVNOISE_CUDA_ARCHITECTURES "80;86;89;90;100;120" CACHE STRING "GPU architectures of the general kernels")
execute_process(COMMAND ${COVNOISE_NVCC} --list-gpu-arch OUTPUT_VARIABLE KNOWN_ARCHITECTURES)
set(GENERAL_TARGETS "")
set(GENERAL_ARCHITECTURES "")
foreach(number ${COVNOISE_CUDA_ARCHITECTURES})
  if(KNOWN_ARCHITECTURES MATCHES "compute_${number}[\r\n]")
    list(APPEND GENERAL_TARGETS -gencode=arch=compute_${number},code=sm_${number})
    list(APPEND GENERAL_ARCHITECTURES ${number})
  endif()
endforeach()
list(JOIN GENERAL_ARCHITECTURES "," GENERAL_ARCHITECTURES)
foreach(source ${CUDA_SOURCES})
  get_filename_component(name ${source} NAME)
  set(object cuda/${name}.o)  # relative to the build folder, so that ccache takes it for another clone's
  set(target ${GENERAL_TARGETS})
  if(source MATCHES "/(convolution/|weight_gradient/conv_)")  # TMA
    set(target -arch=sm_90)
  elseif(source MATCHES "/hopper/")  # wgmma as well
    set(target -gencode=arch=compute_90a,code=sm_90a)
  endif()
  add_custom_command(OUTPUT ${object}
                     COMMAND ${CMAKE_CXX_COMPILER_LAUNCHER} ${COVNOISE_NVCC} -std=c++17 -O3 ${target} --threads=0
                             --split-compile=0 -Xcompiler=-fPIC
                             -I${CMAKE_CURRENT_SOURCE_DIR}/src -I${CMAKE_CURRENT_SOURCE_DIR}/include -MD -MF ${object}.d
                             -c ${source} -o ${object}
                     DEPENDS ${source} DEPFILE ${object}.d COMMENT "nvcc ${name}" VERBATIM)
  list(APPEND CUDA_OBJECTS ${CMAKE_CURRENT_BINARY_DIR}/${object})
endforeach()
add_custom_target(cuda_kernels DEPENDS ${CUDA_OBJECTS})

if(NOT TARGET torch_cuda)
  message(STATUS "CUDA kernels are only compiled by the target cuda_kernels: this LibTorch has no CUDA")
  return()
endif()
set(COVNOISE_HAS_CUDA ON)
get_filename_component(CUDA_HOME ${COVNOISE_NVCC} REALPATH)
get_filename_component(CUDA_HOME ${CUDA_HOME}/../.. ABSOLUTE)
find_library(CUDART cudart HINTS ${CUDA_HOME}/lib64 ${CUDA_HOME}/targets/x86_64-linux/lib REQUIRED)
target_sources(covnoise_ops PRIVATE ${CUDA_BINDINGS} ${CUDA_OBJECTS})
set_source_files_properties(${CUDA_BINDINGS} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
set_source_files_properties(${CUDA_OBJECTS} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
target_include_directories(covnoise_ops SYSTEM PRIVATE ${CUDA_HOME}/include)
set_source_files_properties(
  src/ops/device.cpp src/ops/gpu_info.cpp PROPERTIES
  COMPILE_DEFINITIONS "COVNOISE_HAS_CUDA;COVNOISE_CUDA_ARCHITECTURES=\"${GENERAL_ARCHITECTURES}\"" SKIP_PRECOMPILE_HEADERS ON)
target_link_libraries(covnoise_ops PRIVATE $<TARGET_FILE:torch_cuda> $<TARGET_FILE:c10_cuda> ${CUDART})
