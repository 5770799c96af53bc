//! A function of the schema with something taken away, to see that a test notices.

use super::scene::Scene;

pub(crate) struct Mutant {
    function: &'static str,
    replacements: Vec<(&'static str, &'static str)>,
    pinned: bool,
}

impl Mutant {
    pub(crate) fn of(function: &'static str) -> Self {
        Self { function, replacements: Vec::new(), pinned: true }
    }

    /// Replaces every occurrence of a piece of the function's text, which must be there.
    pub(crate) fn replace(mut self, from: &'static str, to: &'static str) -> Self {
        self.replacements.push((from, to));
        self
    }

    /// Takes away every setting that is attached to the function, except its search path.
    pub(crate) fn without_pins(mut self) -> Self {
        self.pinned = false;
        self
    }

    pub(crate) async fn apply(self, scene: &Scene) {
        let query =
            format!("SELECT pg_get_functiondef(oid) FROM pg_proc WHERE proname = '{}'", self.function);
        let mut definition: String = scene.value(&query).await;
        for (from, to) in self.replacements {
            assert!(definition.contains(from), "{} has no `{from}` to replace", self.function);
            definition = definition.replace(from, to);
        }
        if !self.pinned {
            let kept = |line: &&str| !line.trim_start().starts_with("SET ") || line.contains("search_path");
            let (head, body) = definition.split_once("AS $").expect("a body");
            let unpinned: Vec<&str> = head.lines().filter(kept).collect();
            definition = format!("{}\nAS ${body}", unpinned.join("\n"));
        }
        scene.run(&definition).await;
    }
}
