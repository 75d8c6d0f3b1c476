#pragma once

namespace covnoise {

/// I_x(a, b) = B(x; a, b) / B(a, b) for a, b > 0 and 0 <= x <= 1, to about 1e-13 relative (DLMF 8.17.22).
double regularized_incomplete_beta(double a, double b, double x);

/// P(|T| >= |t|) of Student's t distribution, `degrees` > 0 of freedom, not necessarily an integer:
/// I_{degrees / (degrees + t^2)}(degrees / 2, 1 / 2), accurate in the far tail, too.
double student_t_two_sided(double t, double degrees);

/// The t > 0 with P(|T| <= t) = `level`, 0 < level < 1: 12.706 for 0.95 and 1 degree of freedom.
double student_t_critical(double level, double degrees);

}  // namespace covnoise
