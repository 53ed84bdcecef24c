//! Running other programs: echoed, from the workspace root, with errors that name the command.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

pub(crate) use steady_test_support::find;

use anyhow::{Context, Result, bail};

/// The workspace root.
pub(crate) fn root() -> PathBuf {
    // Cargo says at run time where the package is, so that a moved clone works without a rebuild.
    let package = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    package.parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// The value of `LIBTORCH` that a person exported; `None` when it is only the workspace's default.
pub(crate) fn exported_libtorch() -> Option<PathBuf> {
    let value = PathBuf::from(std::env::var_os("LIBTORCH").filter(|value| !value.is_empty())?);
    (value != root().join(".libtorch")).then_some(value)
}

/// A command that starts in the workspace root with the environment of the shell `cargo xtask` was
/// typed in.
///
/// `cargo run` puts `[env]` of `.cargo/config.toml` into our environment. Handed on, it would look to
/// an inner cargo like an exported `LIBTORCH`, and the libtorch bindings (minutes of C++) would be
/// rebuilt at every change between `cargo xtask` and plain `cargo`.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root());
    if exported_libtorch().is_none() {
        command.env_remove("LIBTORCH");
    }
    command
}

/// `cargo`, the one that runs us.
pub(crate) fn cargo() -> Command {
    // `cargo` by name, not $CARGO: the latter is a toolchain's binary, without rustup's proxy.
    command("cargo")
}

/// The command as one would type it.
pub(crate) fn shown(command: &Command) -> String {
    let mut words: Vec<String> = Vec::new();
    for (key, value) in command.get_envs() {
        if let Some(value) = value {
            words.push(format!("{}={}", key.to_string_lossy(), quoted(&value.to_string_lossy())));
        }
    }
    words.push(command.get_program().to_string_lossy().into_owned());
    words.extend(command.get_args().map(|arg| quoted(&arg.to_string_lossy())));
    words.join(" ")
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+./:,@%^".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Echoes the command, runs it with our standard streams, and fails when it fails.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    println!("$ {}", shown(command));
    let status = command.status().with_context(|| format!("cannot start `{}`", shown(command)))?;
    if !status.success() {
        bail!("`{}` failed ({status})", shown(command));
    }
    Ok(())
}

/// Runs the command silently and returns what it printed, without the last line's end.
pub(crate) fn capture(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start `{}`", shown(command)))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("`{}` failed ({}): {}", shown(command), output.status, said.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

/// Where cargo puts what it builds.
pub(crate) fn target() -> PathBuf {
    // Relative to the folder that inner commands start in, as for cargo.
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |folder| root().join(folder))
}

/// Our folder in the user's cache: what every clone of the user shares.
pub(crate) fn cache_folder() -> Result<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let cache = cache.or_else(home).context("neither XDG_CACHE_HOME nor HOME is set")?;
    Ok(cache.join("steady"))
}

/// The Python to ask and to use: the active environment's, else the system's.
pub(crate) fn python() -> Result<&'static str> {
    ["python3", "python"]
        .into_iter()
        .find(|name| find(name).is_some())
        .context("there is no Python 3 here (sudo apt-get install -y python3 python3-pip)")
}

/// A duration for people: `0.42 s`, `17.3 s`, `2 min 31 s`.
pub(crate) fn took(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds < 10.0 {
        format!("{seconds:.2} s")
    } else if seconds < 60.0 {
        format!("{seconds:.1} s")
    } else {
        format!("{} min {:02} s", time.as_secs() / 60, time.as_secs() % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_shown_as_typed() {
        let mut command = Command::new("cargo");
        command.args(["run", "--", "a b", "it's", ""]).env("RUSTDOCFLAGS", "-D warnings");
        assert_eq!(shown(&command), r"RUSTDOCFLAGS='-D warnings' cargo run -- 'a b' 'it'\''s' ''");
    }

    #[test]
    fn failures_name_the_command() {
        let error = run(&mut Command::new("no-such-program-anywhere")).unwrap_err();
        assert!(format!("{error:#}").contains("no-such-program-anywhere"));
        let error = capture(Command::new("sh").args(["-c", "echo why >&2; exit 3"])).unwrap_err();
        assert!(format!("{error:#}").contains("why"));
    }

    #[test]
    fn durations_are_readable() {
        assert_eq!(took(Duration::from_millis(420)), "0.42 s");
        assert_eq!(took(Duration::from_millis(17_310)), "17.3 s");
        assert_eq!(took(Duration::from_secs(151)), "2 min 31 s");
    }
}
