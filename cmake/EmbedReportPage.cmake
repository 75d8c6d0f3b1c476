# cmake -DSOURCE=web/report -DLIBRARY=.../node_modules/uplot -DOUTPUT=report_page.cpp -P EmbedReportPage.cmake
# Puts style sheets, scripts and the charting library into the page's template and the page into a C++ string. The
# program replaces @DATA@ in it. Without LIBRARY the string is empty: this build has no report page.
set(page "")
if(LIBRARY)
  set(SCRIPT "")
  foreach(name dom statistics chart panel software results section items raw main)
    file(READ ${SOURCE}/${name}.js text)
    string(APPEND SCRIPT "${text}\n")
  endforeach()
  file(READ ${SOURCE}/report.css STYLE)
  file(READ ${LIBRARY}/LICENSE LIBRARY_LICENSE)
  file(READ ${LIBRARY}/dist/uPlot.min.css LIBRARY_STYLE)
  file(READ ${LIBRARY}/dist/uPlot.iife.min.js LIBRARY)
  file(READ ${SOURCE}/template.html page)
  foreach(part STYLE SCRIPT LIBRARY_LICENSE LIBRARY_STYLE LIBRARY)
    string(REPLACE "@${part}@" "${${part}}" page "${page}")
  endforeach()
endif()
file(WRITE ${OUTPUT} "#include \"report/template.h\"\n
namespace covnoise {

std::string_view report_template() {
  static constexpr char kPage[] = R\"page(${page})page\";
  return {kPage, sizeof kPage - 1};
}

}  // namespace covnoise
")
