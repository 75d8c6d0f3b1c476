#pragma once

namespace covnoise {

/// Catches the first SIGINT and SIGTERM; a second one ends the process immediately.
void catch_interrupts();

/// The signal caught, or 0.
int caught_signal();

}  // namespace covnoise
