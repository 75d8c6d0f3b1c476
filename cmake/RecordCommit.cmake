# cmake -DSOURCE=. -DOUTPUT=build_commit.cpp [-DGIT=git] [-DCOMMIT=...] -P RecordCommit.cmake
# Writes the commit of the source tree as a C++ function: -DCOMMIT, or the environment variable COVNOISE_COMMIT, or what
# git says. The file is replaced only if it changes.
set(commit "${COMMIT}")
if(NOT commit)
  set(commit "$ENV{COVNOISE_COMMIT}")
endif()
if(NOT commit AND GIT AND EXISTS "${SOURCE}/.git")
  execute_process(COMMAND ${GIT} describe --always --dirty --abbrev=12 --exclude=* WORKING_DIRECTORY ${SOURCE}
                  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(NOT commit)
  set(commit unknown)
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#include \"build_info.h\"

namespace covnoise {

const char* build_commit() { return \"${commit}\"; }

}  // namespace covnoise
")
