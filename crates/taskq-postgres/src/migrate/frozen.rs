//! Migrations that have gone out with a release: databases have them, so they never change.

use super::embedded::MIGRATIONS;
use super::text::checksum;

/// The migrations of every release by now, each as the hash that ledgers have of it and its name. A release adds its own.
const FROZEN: &str = include_str!("../../sql/frozen.txt");

/// What of a list does not hold for some files, one line each.
fn broken(frozen: &str, files: &[(&str, &str)]) -> Vec<String> {
    let lines = frozen.lines().filter(|line| !line.starts_with('#'));
    let broken = lines.filter_map(|line| {
        let Some((hash, name)) = line.split_once("  ") else {
            return Some(format!("not a hash and a name: {line}"));
        };
        let Some((_, sql)) = files.iter().find(|(file, _)| *file == name) else {
            return Some(format!("{name} has gone"));
        };
        let now = checksum(sql);
        (now != hash)
            .then(|| format!("{name} is frozen and has changed, to {now}: put what is new into a new file"))
    });
    broken.collect()
}

#[test]
fn what_has_gone_out_has_not_changed() {
    assert_eq!(broken(FROZEN, MIGRATIONS), [""; 0]);
}

#[test]
fn nothing_goes_before_what_has_gone_out() {
    let last = FROZEN.lines().filter_map(|line| line.split_once("  ")).map(|(_, name)| name).max().unwrap();
    let early = MIGRATIONS.iter().filter(|(name, _)| *name < last && !FROZEN.contains(name));
    assert_eq!(
        early.map(|(name, _)| *name).collect::<Vec<_>>(),
        [""; 0],
        "they come before {last}, which is frozen"
    );
}

#[test]
fn a_change_is_noticed_and_a_comment_is_none() {
    let sql = "CREATE TABLE a (b int); -- a table";
    let list = format!("# files\n{}  1.sql", checksum(sql));
    let of = |sql| broken(&list, &[("1.sql", sql)]);
    assert_eq!(of("CREATE TABLE a (b int);\n\n-- another word"), [""; 0]);
    assert!(of("CREATE TABLE a (b bigint);")[0].contains("1.sql is frozen and has changed"));
    assert_eq!(broken(&list, &[]), ["1.sql has gone"]);
    assert!(broken("abc 1.sql", &[])[0].starts_with("not a hash"));
}
