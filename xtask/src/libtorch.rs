//! libtorch for the `tch` crate, at `.libtorch` in the workspace root.
//!
//! `tch` works with exactly one libtorch version. In order of preference: the folder an exported
//! `LIBTORCH` names; a Python installation that has that torch (`.libtorch` links to the package);
//! a CPU-only folder made from PyPI wheels and kept in the user's cache (`.libtorch` links to it).
//!
//! The PyPI wheel is built with CUDA. Its `libtorch_cpu.so` needs only two small CUDA libraries,
//! which come in wheels of their own; its `libtorch.so` is an empty library that pulls in the rest
//! (gigabytes), so ours is a stub that names `libtorch_cpu.so` and `libc10.so` only.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};

use crate::setup::{Problem, say};
use crate::sh;

/// What `tch` 0.26 was generated for; it refuses any other.
const VERSION: &str = "2.13.0";
/// Wheels to take apart: torch, and the CUDA libraries its CPU library is linked against.
const WHEELS: [&str; 3] = ["torch==2.13.0", "nvidia-cuda-cupti==13.0.85", "nvidia-cuda-runtime==13.0.96"];
/// The Python a wheel is made for does not matter to us, but pip must pick one that exists.
const WHEEL_PYTHON: [&str; 6] = ["--implementation", "cp", "--python-version", "3.12", "--abi", "cp312"];
/// What the wheels (manylinux_2_28) ask of the C library.
const MIN_GLIBC: (u32, u32) = (2, 28);
/// Wheels and unpacked folder together, with room to spare.
const NEEDED_MIB: u64 = 1600;
/// Takes the parts we want out of the wheels.
const UNPACK: &str = include_str!("unpack.py");
/// Prints the folder of Python's torch package, and its version; imports it to see that it works.
const ASK_PYTHON: &str = "import importlib.util as u, sys\n\
    if u.find_spec('torch') is None: sys.exit(0)\n\
    import torch, os\n\
    print(torch.__version__); print(os.path.dirname(torch.__file__))";

/// Makes sure that there is a libtorch to build with.
pub(crate) fn provide(root: &Path) -> Result<(), Problem> {
    if let Some(folder) = sh::exported_libtorch() {
        return match check(&folder) {
            Ok(()) => {
                say("libtorch", format_args!("{VERSION} at {} (LIBTORCH)", folder.display()));
                Ok(())
            }
            Err(error) => Err(Problem {
                what: format!("LIBTORCH={} is not usable: {error:#}", folder.display()),
                fix: "unset LIBTORCH, then run `cargo xtask setup` again".to_owned(),
            }),
        };
    }
    let link = root.join(".libtorch");
    if check(&link).is_ok() {
        let place = fs::canonicalize(&link).unwrap_or(link);
        say("libtorch", format_args!("{VERSION} at {}", place.display()));
        return Ok(());
    }
    find_or_make().and_then(|folder| point(&link, &folder)).map_err(|error| Problem {
        what: format!("no libtorch {VERSION}, which training needs: {error:#}"),
        fix: "mend that and run `cargo xtask setup` again, or export LIBTORCH=<folder of libtorch \
              2.13.0>, or build without training (`--no-default-features`)"
            .to_owned(),
    })
}

/// Fails, saying why, unless the folder is a libtorch of the right version.
fn check(folder: &Path) -> Result<()> {
    for part in ["lib/libtorch_cpu.so", "lib/libc10.so", "include/torch/csrc/api/include/torch/torch.h"] {
        ensure!(folder.join(part).is_file(), "{part} is missing");
    }
    // Older versions have it in another place, and then it is not ours anyway.
    let header = folder.join("include/torch/headeronly/version.h");
    let text = fs::read_to_string(&header).with_context(|| format!("not version {VERSION}"))?;
    let version = header_version(&text).unwrap_or("unknown");
    ensure!(version == VERSION, "its version is {version}, not {VERSION}");
    Ok(())
}

/// The string after `#define TORCH_VERSION`.
fn header_version(header: &str) -> Option<&str> {
    header.split_once("#define TORCH_VERSION \\")?.1.split('"').nth(1)
}

/// The folder `.libtorch` shall link to.
fn find_or_make() -> Result<PathBuf> {
    let cached = cache_folder()?;
    if check(&cached).is_ok() {
        say("libtorch", format_args!("{VERSION} is in the cache"));
        return Ok(cached);
    }
    let python = sh::python()?;
    if let Some(package) = python_torch(python) {
        return Ok(package);
    }
    make(python, &cached)?;
    Ok(cached)
}

/// Where finished folders are kept, so that every clone of the user shares one download.
fn cache_folder() -> Result<PathBuf> {
    Ok(sh::cache_folder()?.join(format!("libtorch-{VERSION}-cpu")))
}

/// The package folder of Python's torch, when it is the right version and can be imported.
fn python_torch(python: &str) -> Option<PathBuf> {
    let answer = match sh::capture(sh::command(python).args(["-c", ASK_PYTHON])) {
        Ok(answer) => answer,
        Err(_) => {
            say("libtorch", format_args!("{python} has a torch that cannot be imported: not used"));
            return None;
        }
    };
    let (version, folder) = answer.split_once('\n')?;
    let folder = PathBuf::from(folder);
    let verdict = match version.split('+').next() {
        Some(VERSION) => check(&folder),
        _ => Err(anyhow!("its version is not {VERSION}")),
    };
    match verdict {
        Ok(()) => {
            say("libtorch", format_args!("using {python}'s torch {version}"));
            Some(folder)
        }
        Err(error) => {
            say("libtorch", format_args!("{python}'s torch {version} is not used: {error:#}"));
            None
        }
    }
}

/// Makes the CPU-only folder: all of it beside its place, then one rename.
fn make(python: &str, folder: &Path) -> Result<()> {
    let parent = folder.parent().context("the cache folder has no parent")?;
    fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
    drop_leftovers(parent);
    glibc_is_new_enough()?;
    disk_has_room(parent)?;
    let scratch = Scratch::new(parent)?;

    let wheels = scratch.0.join("wheels");
    say("libtorch", format_args!("downloading {} (about 550 MB)", WHEELS.join(", ")));
    let mut pip = sh::command(python);
    pip.args(["-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-cache-dir"]);
    pip.args(WHEEL_PYTHON).args(["--disable-pip-version-check", "--dest"]).arg(&wheels).args(WHEELS);
    sh::run(&mut pip).context("the wheels could not be downloaded (is there a network, and pip?)")?;

    say("libtorch", "unpacking headers and CPU libraries");
    let made = scratch.0.join("libtorch");
    sh::capture(sh::command(python).args(["-c", UNPACK]).arg(&wheels).arg(&made))?;
    fs::remove_dir_all(&wheels)?;
    stub(&made, &scratch.0)?;
    fs::write(made.join("build-version"), format!("{VERSION}+cpu\n"))?;
    check(&made)?;
    // The dynamic linker has the last word on whether all is there and fits this system.
    let load = "import ctypes, sys; ctypes.CDLL(sys.argv[1])";
    sh::capture(sh::command(python).args(["-c", load]).arg(made.join("lib/libtorch.so")))
        .context("the finished libtorch cannot be loaded")?;

    if folder.exists() {
        // Not usable, or we would not be here; or another set-up was faster, and then it is the same.
        fs::remove_dir_all(folder).with_context(|| format!("cannot replace {}", folder.display()))?;
    }
    fs::rename(&made, folder).with_context(|| format!("cannot create {}", folder.display()))?;
    say("libtorch", format_args!("made {}", folder.display()));
    Ok(())
}

/// `libtorch.so`: what programs link to, here without the CUDA half.
fn stub(made: &Path, scratch: &Path) -> Result<()> {
    let source = scratch.join("stub.cpp");
    fs::write(&source, "extern \"C\" int steady_libtorch_cpu_only = 1;\n")?;
    let compiler = ["g++", "c++", "clang++"].into_iter().find(|name| sh::find(name).is_some());
    let compiler = compiler.context("there is no C++ compiler (sudo apt-get install -y g++)")?;
    let mut command = sh::command(compiler);
    command.args(["-shared", "-fPIC", "-o"]).arg(made.join("lib/libtorch.so")).arg(&source);
    command.arg("-L").arg(made.join("lib"));
    command.args(["-Wl,-soname,libtorch.so", "-Wl,-rpath,$ORIGIN", "-Wl,--no-as-needed"]);
    sh::capture(command.args(["-ltorch_cpu", "-lc10"]))
        .context("the stub libtorch.so could not be linked")?;
    Ok(())
}

/// Points the link at the folder; a real folder in its place is somebody's and stays.
fn point(link: &Path, folder: &Path) -> Result<()> {
    match fs::symlink_metadata(link) {
        Ok(meta) if meta.is_symlink() => fs::remove_file(link)?,
        Ok(_) => bail!("{} is not libtorch {VERSION}, and not a link: remove it", link.display()),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
    }
    std::os::unix::fs::symlink(folder, link)
        .with_context(|| format!("cannot create the link {}", link.display()))?;
    say("libtorch", format_args!(".libtorch -> {}", folder.display()));
    Ok(())
}

/// A folder that goes away with the value: a failed set-up leaves nothing half made.
struct Scratch(PathBuf);

/// Scratch folders carry the process number, so that those of a killed set-up can be told apart.
const SCRATCH_PREFIX: &str = ".making-libtorch-";

impl Scratch {
    fn new(parent: &Path) -> Result<Self> {
        let path = parent.join(format!("{SCRATCH_PREFIX}{}", std::process::id()));
        fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("warning: cannot remove {}: {error}", self.0.display());
        }
    }
}

/// Removes the scratch folders of set-ups that were killed.
fn drop_leftovers(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(process) = name.to_str().and_then(|name| name.strip_prefix(SCRATCH_PREFIX)) else {
            continue;
        };
        if !Path::new("/proc").join(process).exists() {
            say("libtorch", "removing what an interrupted set-up left");
            // Should it fail, `disk_has_room` notices when it matters.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Fails with advice on systems the wheels do not run on.
fn glibc_is_new_enough() -> Result<()> {
    let (major, minor) = MIN_GLIBC;
    let said = sh::capture(sh::command("getconf").arg("GNU_LIBC_VERSION")).unwrap_or_default();
    match glibc_version(&said) {
        Some(version) if version >= MIN_GLIBC => Ok(()),
        Some((a, b)) => bail!("libtorch needs glibc {major}.{minor} or newer, this system has {a}.{b}"),
        None => {
            bail!("libtorch needs glibc {major}.{minor} or newer, this system seems to have another libc")
        }
    }
}

/// Reads `glibc 2.36`.
fn glibc_version(said: &str) -> Option<(u32, u32)> {
    let (major, minor) = said.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
}

/// Fails with figures when wheels and folder would not fit.
fn disk_has_room(folder: &Path) -> Result<()> {
    let said = sh::capture(sh::command("df").args(["--output=avail", "-BM"]).arg(folder))?;
    let free = said.lines().last().and_then(|line| line.trim().trim_end_matches('M').parse::<u64>().ok());
    match free {
        Some(free) if free < NEEDED_MIB => {
            bail!("{} has {free} MiB free, {NEEDED_MIB} MiB are needed", folder.display())
        }
        // An unreadable answer is no reason not to try.
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_read_from_the_header() {
        let header =
            "#define TORCH_VERSION_MAJOR 2\n#define TORCH_VERSION \\\n  \"2.13.0\"\n#define X \"y\"\n";
        assert_eq!(header_version(header), Some("2.13.0"));
        assert_eq!(header_version("#define TORCH_VERSION_MAJOR 2\n"), None);
    }

    #[test]
    fn glibc_versions_compare_as_numbers() {
        assert_eq!(glibc_version("glibc 2.36\n"), Some((2, 36)));
        assert!(glibc_version("glibc 2.9") < Some(MIN_GLIBC));
        assert_eq!(glibc_version("musl"), None);
    }

    #[test]
    fn a_folder_that_is_not_libtorch_is_refused_with_the_reason() {
        let error = check(&sh::root()).unwrap_err();
        assert!(error.to_string().contains("lib/libtorch_cpu.so"), "{error}");
    }

    #[test]
    fn a_real_folder_is_never_replaced_by_the_link() {
        let error = point(&sh::root().join("xtask"), Path::new("/nowhere")).unwrap_err();
        assert!(error.to_string().contains("remove it"), "{error}");
        assert!(sh::root().join("xtask/Cargo.toml").is_file());
    }
}
