# The headers of c10d's back ends need those of Gloo (libgloo-dev) and NCCL (nccl.h; in a PyTorch wheel nvidia/nccl).
# One file includes them; a build without them trains in one process, and refuses to train in several.
set(DISTRIBUTED_DEFINITIONS "")
set(DISTRIBUTED_INCLUDES "")
find_path(GLOO_INCLUDE gloo/context.h)
if(GLOO_INCLUDE)
  list(APPEND DISTRIBUTED_DEFINITIONS COVNOISE_HAS_GLOO USE_C10D_GLOO)
else()
  message(STATUS "Gloo's headers not found: no training in several processes on CPUs")
endif()
if(COVNOISE_HAS_CUDA)
  get_filename_component(WHEEL_PACKAGES ${TORCH_INSTALL_PREFIX}/.. ABSOLUTE)
  find_path(NCCL_INCLUDE nccl.h HINTS ${WHEEL_PACKAGES}/nvidia/nccl/include ${CUDA_HOME}/include)
  if(NCCL_INCLUDE)
    list(APPEND DISTRIBUTED_DEFINITIONS COVNOISE_HAS_NCCL USE_C10D_NCCL)
    list(APPEND DISTRIBUTED_INCLUDES ${NCCL_INCLUDE} ${CUDA_HOME}/include)
  else()
    message(STATUS "nccl.h not found: no training in several processes on GPUs")
  endif()
endif()
set_source_files_properties(src/distributed/process_group.cpp PROPERTIES SKIP_PRECOMPILE_HEADERS ON
                            SKIP_UNITY_BUILD_INCLUSION ON
                            COMPILE_DEFINITIONS "${DISTRIBUTED_DEFINITIONS}"
                            INCLUDE_DIRECTORIES "${DISTRIBUTED_INCLUDES}")
