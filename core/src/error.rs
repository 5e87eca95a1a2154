//! Errors: what they say where nobody formats them, and those that say what another error says.

/// `Debug` as the message: a program that ends with an error prints that, and so do tests and cells of notebooks.
macro_rules! readable {
    ($error:ident$(<$inner:ident>)?) => {
        impl$(<$inner>)? std::fmt::Debug for $error$(<$inner>)? {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        }
    };
}
pub(crate) use readable;

/// Makes errors of types that say all there is.
macro_rules! told {
    ($error:ident$(<$inner:ident>)?) => {
        $crate::error::readable!($error$(<$inner>)?);
        impl$(<$inner>)? std::error::Error for $error$(<$inner>)? {}
    };
}
pub(crate) use told;

/// Makes an error of the errors that its variants wrap. Their messages are part of its own, so its source is theirs.
macro_rules! wraps {
    ($error:ident { $($variant:ident($wrapped:ty)),+ }) => {
        $crate::error::readable!($error);

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
