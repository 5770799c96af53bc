//! What is compared: the table as it ships, and the same with one thing changed.

/// A table of jobs with settings of its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Variant {
    /// Part of the schema's name.
    pub(super) name: &'static str,
    /// What a reader of the report sees.
    pub(super) case: &'static str,
    /// What makes it so.
    pub(super) alter: &'static str,
    /// How long the text in each payload is.
    pub(super) payload_bytes: usize,
}

const SMALL: usize = 64;
const MIDDLE: usize = 1_024;
const LARGE: usize = 4_096;

/// As it ships with small payloads first: the others are compared with it.
pub(super) const VARIANTS: [Variant; 11] = [
    Variant { name: "shipped", case: "shipped", alter: "", payload_bytes: SMALL },
    Variant {
        name: "full",
        case: "fillfactor 100",
        alter: r#"ALTER TABLE "{schema}".jobs SET (fillfactor = 100)"#,
        payload_bytes: SMALL,
    },
    Variant {
        name: "half",
        case: "fillfactor 50",
        alter: r#"ALTER TABLE "{schema}".jobs SET (fillfactor = 50)"#,
        payload_bytes: SMALL,
    },
    Variant {
        name: "defaults",
        case: "server's autovacuum",
        alter: r#"ALTER TABLE "{schema}".jobs RESET (autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold,
            autovacuum_vacuum_insert_scale_factor, autovacuum_analyze_scale_factor)"#,
        payload_bytes: SMALL,
    },
    Variant {
        name: "truncate",
        case: "vacuum_truncate on",
        alter: r#"ALTER TABLE "{schema}".jobs SET (vacuum_truncate = on)"#,
        payload_bytes: SMALL,
    },
    Variant { name: "middle", case: "shipped", alter: "", payload_bytes: MIDDLE },
    Variant { name: "middle_256", case: "toast_tuple_target 256", alter: TARGET_256, payload_bytes: MIDDLE },
    Variant { name: "middle_512", case: "toast_tuple_target 512", alter: TARGET_512, payload_bytes: MIDDLE },
    Variant { name: "large", case: "shipped", alter: "", payload_bytes: LARGE },
    Variant { name: "large_256", case: "toast_tuple_target 256", alter: TARGET_256, payload_bytes: LARGE },
    Variant { name: "large_512", case: "toast_tuple_target 512", alter: TARGET_512, payload_bytes: LARGE },
];

const TARGET_256: &str = r#"ALTER TABLE "{schema}".jobs SET (toast_tuple_target = 256)"#;
const TARGET_512: &str = r#"ALTER TABLE "{schema}".jobs SET (toast_tuple_target = 512)"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variant_has_a_schema_of_its_own() {
        let mut names: Vec<_> = VARIANTS.iter().map(|variant| variant.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), VARIANTS.len());
        assert!(VARIANTS[0].alter.is_empty(), "the others are compared with what ships");
    }
}
