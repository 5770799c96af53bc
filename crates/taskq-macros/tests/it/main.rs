//! What `derive(Job)` refuses. What it makes is tested where its output compiles, in the crate `taskq`.

#[test]
fn mistakes_are_compile_errors_that_say_what_to_do() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
