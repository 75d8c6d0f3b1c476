# One C++ library in a process. PyTorch uses libstdc++.so.6; a compiler that links its own copy statically would give
# covnoise a second one, and because both share the numbers of their locales' facets, the first number in an error message
# would crash. Named before the compiler's own, the shared library is the one that is used.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_SYSTEM_NAME STREQUAL "Linux")
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=libstdc++.so.6 OUTPUT_VARIABLE COMPILERS_OWN
                  OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(IS_ABSOLUTE "${COMPILERS_OWN}")
    get_filename_component(COVNOISE_STDCXX ${COMPILERS_OWN} REALPATH)
  else()
    find_library(COVNOISE_STDCXX libstdc++.so.6 PATHS /usr/lib/x86_64-linux-gnu /usr/lib/aarch64-linux-gnu /usr/lib64)
  endif()
  if(COVNOISE_STDCXX)
    link_libraries(${COVNOISE_STDCXX})
  endif()
endif()
