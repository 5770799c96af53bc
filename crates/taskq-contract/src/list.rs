//! The list itself, and the two macros that read it.

use crate::Harness;

/// Hands the list to the macro `$reader`, with `$context` in front of it.
#[doc(hidden)]
#[macro_export]
macro_rules! each_behaviour {
    ($($reader:ident)::+ $context:tt) => {
        $($reader)::+! {
            $context
            enqueue {
                a_job_is_stored_as_it_was_given
            }
        }
    };
}

/// Turns the list into one `#[tokio::test]` a behaviour, in one module a group.
///
/// The argument names an `async fn()` of the module that calls the macro, which makes a fresh [`Harness`].
/// The calling crate needs `tokio` with its macros.
#[macro_export]
macro_rules! behaviours {
    ($make:ident) => {
        $crate::each_behaviour!($crate::behaviour_tests[$make]);
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! behaviour_tests {
    ([$make:ident] $($group:ident { $($name:ident)* })*) => {
        $($crate::behaviour_tests! { @group $make $group { $($name)* } })*
    };
    (@group $make:ident $group:ident { $($name:ident)* }) => {
        mod $group {
            $(
                #[tokio::test]
                async fn $name() {
                    let harness = super::$make().await;
                    $crate::run(concat!(stringify!($group), "::", stringify!($name)), &harness).await;
                }
            )*
        }
    };
}

/// Runs the behaviours by name, so that one that is written but not listed is dead code to the compiler.
macro_rules! runner {
    ([] $($group:ident { $($name:ident)* })*) => {
        /// Runs the behaviour `group::name` on a fresh harness.
        ///
        /// # Panics
        /// When the store does not behave, and when the list has no such behaviour.
        pub async fn run(behaviour: &str, harness: &dyn Harness) {
            match behaviour {
                $($(
                    concat!(stringify!($group), "::", stringify!($name)) => {
                        Box::pin(crate::$group::$name(crate::scene::Scene::new(harness))).await;
                    }
                )*)*
                other => panic!("the list has no behaviour `{other}`"),
            }
        }
    };
}

crate::each_behaviour!(runner[]);
