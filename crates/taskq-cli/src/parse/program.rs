//! Programs that serve actors: `NAME='command line'`.

use taskq::ActorName;

/// A command line, split as a shell would split it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Command {
    /// The program: a path, or a name to be found in `PATH`.
    pub(crate) program: String,
    /// Its arguments.
    pub(crate) arguments: Vec<String>,
}

/// Splits a command line. Quotes and backslashes work as in a shell; nothing else does, since none runs.
pub(crate) fn command(text: &str) -> Result<Command, String> {
    let words = shlex::split(text).ok_or("the command has an unfinished quote or escape")?;
    from_words(words)
}

/// Makes a command of words that are split already.
pub(crate) fn from_words(words: Vec<String>) -> Result<Command, String> {
    let mut words = words.into_iter();
    let program = words.next().filter(|program| !program.is_empty()).ok_or("the command is empty")?;
    let arguments: Vec<String> = words.collect();
    if program.contains('\0') || arguments.iter().any(|argument| argument.contains('\0')) {
        return Err("the command contains the character U+0000".to_owned());
    }
    Ok(Command { program, arguments })
}

/// Reads `NAME=command`.
pub(crate) fn actor_program(text: &str) -> Result<(ActorName, Command), String> {
    let (name, line) = text.split_once('=').ok_or("expected NAME='command'")?;
    let name = ActorName::new(name).map_err(|error| error.to_string())?;
    Ok((name, command(line)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_split_without_a_shell() {
        let (name, command) = actor_program(r#"sum=env A='b c' "x y" $HOME"#).unwrap();
        assert_eq!(name.as_str(), "sum");
        assert_eq!(command.program, "env");
        assert_eq!(command.arguments, ["A=b c", "x y", "$HOME"]);
    }

    #[test]
    fn bad_commands_say_why() {
        assert!(actor_program("sum").unwrap_err().contains("NAME="));
        assert!(actor_program("=cat").unwrap_err().contains("empty"));
        assert!(actor_program("sum=").unwrap_err().contains("empty"));
        assert!(actor_program("sum=''").unwrap_err().contains("empty"));
        assert!(actor_program("sum=echo 'x").unwrap_err().contains("unfinished"));
    }
}
