# One precompiled header for all targets: they share their compile definitions.
function(covnoise_precompiled_header name)
  target_compile_definitions(${name} PRIVATE $<TARGET_PROPERTY:${COVNOISE_FMT},INTERFACE_COMPILE_DEFINITIONS>)
  target_include_directories(${name} SYSTEM PRIVATE
                             $<TARGET_PROPERTY:${COVNOISE_FMT},INTERFACE_INCLUDE_DIRECTORIES>)
  if(name STREQUAL covnoise_ops)
    target_precompile_headers(${name} PRIVATE src/pch.h)
  else()
    target_precompile_headers(${name} REUSE_FROM covnoise_ops)
  endif()
endfunction()

# covnoise_library(NAME LAYERS a b LINK x y PRIVATE z): a shared library of the sources of these layers. Its users also
# link LINK.
function(covnoise_library name)
  cmake_parse_arguments(arg "" "" "LAYERS;LINK;PRIVATE" ${ARGN})
  set(sources "")
  foreach(layer ${arg_LAYERS})
    file(GLOB_RECURSE found CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/src/${layer}/*.cpp)
    list(APPEND sources ${found})
  endforeach()
  add_library(${name} SHARED ${sources})
  add_library(covnoise::${name} ALIAS ${name})
  target_include_directories(${name} PUBLIC $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include>
                                            $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_include_directories(${name} PRIVATE src ${CMAKE_CURRENT_BINARY_DIR}/generated)
  target_link_libraries(${name} PUBLIC ${arg_LINK} PRIVATE ${arg_PRIVATE} covnoise_warnings)
  if(NOT COVNOISE_OPS_ONLY)
    covnoise_precompiled_header(${name})
  endif()
  set_target_properties(${name} PROPERTIES DEFINE_SYMBOL "" VERSION ${PROJECT_VERSION}
                        SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
endfunction()
