#pragma once
#include "covnoise/analysis/frobenius.h"
#include "covnoise/analysis/variance.h"

#include <nlohmann/json_fwd.hpp>

namespace covnoise {

/// {"value", "error"}; a value that is not finite is written as null, and null is read as NaN.
void to_json(nlohmann::ordered_json& json, const Measured& measured);
void from_json(const nlohmann::ordered_json& json, Measured& measured);

void to_json(nlohmann::ordered_json& json, const FrobeniusStudy& study);
void from_json(const nlohmann::ordered_json& json, FrobeniusStudy& study);

/// The whole study, except the names of the regimes as they were requested.
void to_json(nlohmann::ordered_json& json, const VarianceStudy& study);
void from_json(const nlohmann::ordered_json& json, VarianceStudy& study);

}  // namespace covnoise
