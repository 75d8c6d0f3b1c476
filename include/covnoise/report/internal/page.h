#pragma once
#include "covnoise/report/internal/collect.h"

#include <string>

namespace covnoise::report {

/// The report as JSON, for the page's script. It has no '<', so that it can stand in a script element.
std::string to_json(const Report& report);

/// Whether this build has the page: npm provides its charting library when the build is configured.
bool page_available();

/// One self-contained HTML file; an Error if page_available() is false.
std::string to_page(const Report& report);

}  // namespace covnoise::report
