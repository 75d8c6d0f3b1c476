#pragma once

namespace covnoise {

/// What to do about a damaged checkpoint: refuse it, or use the newest intact one.
enum class IfDamaged { kRefuse, kUseOlder };

}  // namespace covnoise
