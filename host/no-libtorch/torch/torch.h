// Found only when libtorch's own header is not: `.cargo/config.toml` puts this folder last in the
// C++ compiler's search path, so that a build without set-up says what to do. A header that cannot be
// included is fatal; after `#error` the compiler would go on and bury the message.
#include <libtorch is missing: run "cargo xtask setup" (or build with --no-default-features)>
