# The recipes of `covnoise paper`, embedded when one of them changes.
set(PAPER_RECIPES ${CMAKE_CURRENT_BINARY_DIR}/generated/paper_recipes.cpp)
file(GLOB PAPER_RECIPE_FILES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/recipes/paper/*.toml)
add_custom_command(OUTPUT ${PAPER_RECIPES}
                   COMMAND ${CMAKE_COMMAND} -DSOURCE=${CMAKE_CURRENT_SOURCE_DIR}/recipes/paper
                           -DOUTPUT=${PAPER_RECIPES} -P ${CMAKE_CURRENT_SOURCE_DIR}/cmake/EmbedRecipes.cmake
                   DEPENDS ${PAPER_RECIPE_FILES} ${CMAKE_CURRENT_SOURCE_DIR}/cmake/EmbedRecipes.cmake
                   COMMENT "Embedding the paper's recipes" VERBATIM)
target_sources(covnoise_study PRIVATE ${PAPER_RECIPES})
set_source_files_properties(${PAPER_RECIPES} PROPERTIES SKIP_PRECOMPILE_HEADERS ON SKIP_UNITY_BUILD_INCLUSION ON)
