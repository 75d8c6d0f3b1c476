#pragma once
#include "covnoise/report/internal/collect.h"

#include <string>

namespace covnoise::report {

/// The report as data, for the page's script. No '<' in it: it can stand in a script element.
std::string to_json(const Report& report);

/// Whether this build has the page: its charting library comes from npm when the build is configured.
bool page_available();

/// One HTML file that needs nothing else; an Error where page_available() is false.
std::string to_page(const Report& report);

}  // namespace covnoise::report
