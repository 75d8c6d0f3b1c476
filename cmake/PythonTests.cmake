# The tests of the Python package, one entry of ctest for each file, with a Python whose PyTorch is the LibTorch of this
# build. Where there is none, the entry Python is skipped and says why.
set(COVNOISE_TEST_PYTHON "" CACHE FILEPATH "Python with PyTorch and pytest for the tests; empty: search")
string(REGEX MATCH "^[0-9]+\\.[0-9]+" TORCH_RELEASE "${Torch_VERSION}")
foreach(candidate "${COVNOISE_TEST_PYTHON}" "${Python3_EXECUTABLE}" python3 /usr/bin/python3)
  if(NOT candidate STREQUAL "" AND NOT TEST_PYTHON)
    execute_process(COMMAND ${candidate} -c "import torch, pytest; print(torch.__version__)" OUTPUT_VARIABLE release
                    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE missing)
    if(NOT missing AND release MATCHES "^${TORCH_RELEASE}\\.")
      set(TEST_PYTHON ${candidate})
    endif()
  endif()
endforeach()
if(NOT TEST_PYTHON)
  add_test(NAME Python COMMAND ${CMAKE_COMMAND} -E echo
           "SKIPPED: no python3 with pytest and PyTorch ${TORCH_RELEASE} (python3-torch, python3-pytest)")
  set_tests_properties(Python PROPERTIES SKIP_REGULAR_EXPRESSION "^SKIPPED")
  return()
endif()
file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/python/tests/test_*.py)
foreach(file ${files})
  get_filename_component(name ${file} NAME_WE)
  string(REPLACE "test_" "" name ${name})
  # -rs prints why a test was skipped; a file whose tests are all skipped (exit code 5) is skipped.
  add_test(NAME Python.${name} COMMAND ${TEST_PYTHON} -m pytest -q -rs -p no:cacheprovider ${file})
  set_tests_properties(Python.${name} PROPERTIES TIMEOUT 600 SKIP_RETURN_CODE 5 ENVIRONMENT
                       "OMP_NUM_THREADS=2;OMP_WAIT_POLICY=passive;COVNOISE_OPS=$<TARGET_FILE:covnoise_ops>")
endforeach()
