//! Errors that say what another error says.

/// Makes an error of the errors that its variants wrap. Their messages are part of its own, so its source is theirs.
macro_rules! wraps {
    ($error:ident { $($variant:ident($wrapped:ty)),+ }) => {
        impl std::error::Error for $error {
            fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
                match self {
                    $($error::$variant(error) => error.source(),)+
                    _ => None,
                }
            }
        }

        $(impl From<$wrapped> for $error {
            fn from(error: $wrapped) -> $error {
                $error::$variant(error)
            }
        })+
    };
}
pub(crate) use wraps;
