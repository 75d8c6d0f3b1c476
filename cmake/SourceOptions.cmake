# Compile options of single source files.

# Vector kernels: the same source, compiled once per instruction set; the program chooses when it starts.
file(GLOB_RECURSE AVX512_SOURCES CONFIGURE_DEPENDS src/*_avx512.cpp)
file(GLOB_RECURSE AVX2_SOURCES CONFIGURE_DEPENDS src/*_avx2.cpp)
set_source_files_properties(${AVX512_SOURCES} PROPERTIES SKIP_PRECOMPILE_HEADERS ON
                            COMPILE_OPTIONS "-mavx512f;-mavx512dq;-mavx512bw;-mavx512vl;-mavx2;-mfma;-mprefer-vector-width=512;-ffp-contract=fast")
set_source_files_properties(${AVX2_SOURCES} PROPERTIES SKIP_PRECOMPILE_HEADERS ON
                            COMPILE_OPTIONS "-mavx2;-mfma;-ffp-contract=fast")
set_source_files_properties(src/ops/random_kernel.cpp PROPERTIES SKIP_PRECOMPILE_HEADERS ON
                            COMPILE_OPTIONS "-fno-math-errno;-fno-trapping-math")
# The embedded data sets are the same bytes on every machine, whatever instructions CMAKE_CXX_FLAGS allows.
file(GLOB PROCEDURAL_SOURCES CONFIGURE_DEPENDS src/datasets/procedural/*.cpp)
set_source_files_properties(${PROCEDURAL_SOURCES} PROPERTIES SKIP_PRECOMPILE_HEADERS ON
                            COMPILE_OPTIONS -ffp-contract=off)

if(JPEG_FOUND)
  set_source_files_properties(src/datasets/formats/jpeg.cpp PROPERTIES SKIP_PRECOMPILE_HEADERS ON
                              COMPILE_DEFINITIONS COVNOISE_HAS_JPEG)
endif()
if(WEBP_FOUND)
  set_source_files_properties(src/datasets/formats/webp.cpp PROPERTIES SKIP_PRECOMPILE_HEADERS ON
                              COMPILE_DEFINITIONS COVNOISE_HAS_WEBP)
endif()
set_source_files_properties(src/plot/canvas/png_canvas.cpp PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
if(CAIRO_FOUND)
  set_source_files_properties(src/plot/canvas/png_canvas.cpp PROPERTIES COMPILE_DEFINITIONS COVNOISE_HAS_CAIRO)
endif()
