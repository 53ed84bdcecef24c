//! A real Slurm on this one machine: munged, slurmctld and slurmd with everything they keep in one
//! temporary folder. It needs neither systemd nor cgroups, and leaves nothing behind.

use std::fs::{self, File, Permissions};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::sh;

/// Bytes of the key that munge authenticates with.
const KEY_BYTES: u64 = 1024;
/// Long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A cluster of one node; it ends when this is dropped.
pub(crate) struct Cluster {
    folder: PathBuf,
    /// In the order of their start; they end in the opposite one.
    daemons: Vec<(&'static str, Child)>,
}

impl Cluster {
    /// Starts the cluster in a new folder and waits until its node takes jobs.
    pub(crate) fn start(folder: PathBuf) -> Result<Self> {
        // Others must be able to reach munge's socket in it.
        fs::DirBuilder::new().mode(0o755).create(&folder).with_context(|| folder.display().to_string())?;
        let mut cluster = Self { folder, daemons: Vec::new() };
        for name in ["munge", "state", "spool"] {
            fs::create_dir(cluster.folder.join(name))?;
        }
        cluster.write_key()?;
        fs::write(cluster.configuration(), cluster.settings()?)?;

        let munge = cluster.folder.join("munge");
        let files = ["socket", "key-file", "pid-file", "log-file", "seed-file"];
        let args: Vec<String> =
            files.iter().map(|file| format!("--{file}={}", munge.join(file).display())).collect();
        cluster.daemon("munged", &[&["--foreground".to_owned()], args.as_slice()].concat())?;
        cluster.wait_for("munge's socket", |_| munge.join("socket").exists())?;

        let args = ["-D".to_owned(), "-f".to_owned(), cluster.configuration().display().to_string()];
        cluster.daemon("slurmctld", &args)?;
        cluster.daemon("slurmd", &args)?;
        let state = |cluster: &Self| cluster.ask("sinfo", &["--noheader", "--format=%T"]).unwrap_or_default();
        cluster.wait_for("an idle node", |cluster| state(cluster) == "idle")?;
        Ok(cluster)
    }

    /// A command that knows this cluster.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = sh::command(program);
        command.env("SLURM_CONF", self.configuration());
        command
    }

    /// What a program of Slurm says.
    pub(crate) fn ask(&self, program: &str, args: &[&str]) -> Result<String> {
        sh::capture(self.command(program).args(args))
    }

    /// Waits for something; the daemons must live meanwhile.
    fn wait_for(&mut self, what: &str, done: impl Fn(&Self) -> bool) -> Result<()> {
        let started = Instant::now();
        while !done(self) {
            for (name, child) in &mut self.daemons {
                if let Some(status) = child.try_wait()? {
                    bail!("{name} ended ({status}) while waiting for {what}");
                }
            }
            if started.elapsed() > PATIENCE {
                bail!("{what} did not come within {} s", PATIENCE.as_secs());
            }
            sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    /// The ends of the daemons' logs, for a failure's report.
    pub(crate) fn logs(&self) -> String {
        let mut text = String::new();
        for (name, _) in &self.daemons {
            let log = fs::read_to_string(self.log(name)).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let tail = lines.len().saturating_sub(15);
            text += &format!("{name}:\n  {}\n", lines[tail..].join("\n  "));
        }
        text
    }

    fn configuration(&self) -> PathBuf {
        self.folder.join("slurm.conf")
    }

    fn log(&self, daemon: &str) -> PathBuf {
        self.folder.join(format!("{daemon}.log"))
    }

    fn daemon(&mut self, name: &'static str, args: &[String]) -> Result<()> {
        let program = sh::find(name).with_context(|| format!("there is no {name}"))?;
        let log = File::create(self.log(name))?;
        let child = self
            .command(program)
            .args(args)
            .stdin(std::process::Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("{name} cannot be started"))?;
        self.daemons.push((name, child));
        Ok(())
    }

    fn write_key(&self) -> Result<()> {
        let path = self.folder.join("munge/key-file");
        let mut key = Vec::new();
        File::open("/dev/urandom")?.take(KEY_BYTES).read_to_end(&mut key)?;
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o400).open(&path)?;
        file.write_all(&key)?;
        fs::set_permissions(&path, Permissions::from_mode(0o400))?;
        Ok(())
    }

    /// `slurm.conf`: processes are followed through /proc and tied to nothing, and nothing is accounted for.
    fn settings(&self) -> Result<String> {
        let host = sh::capture(Command::new("hostname").arg("-s"))?;
        let user = sh::capture(Command::new("id").arg("-un"))?;
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let [control, node] = free_ports()?;
        let folder = self.folder.display();
        Ok(format!(
            "ClusterName=steady\n\
             SlurmctldHost={host}(127.0.0.1)\n\
             SlurmctldPort={control}\n\
             SlurmdPort={node}\n\
             SlurmUser={user}\n\
             SlurmdUser={user}\n\
             AuthType=auth/munge\n\
             AuthInfo=socket={folder}/munge/socket\n\
             StateSaveLocation={folder}/state\n\
             SlurmdSpoolDir={folder}/spool\n\
             SlurmctldPidFile={folder}/slurmctld.pid\n\
             SlurmdPidFile={folder}/slurmd.pid\n\
             ProctrackType=proctrack/linuxproc\n\
             TaskPlugin=task/none\n\
             JobAcctGatherType=jobacct_gather/none\n\
             AccountingStorageType=accounting_storage/none\n\
             MpiDefault=none\n\
             SelectType=select/cons_tres\n\
             SelectTypeParameters=CR_CPU\n\
             MailProg=/bin/true\n\
             KillWait=2\n\
             NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN\n\
             PartitionName=local Nodes={host} Default=YES MaxTime=INFINITE State=UP\n"
        ))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let user = sh::capture(Command::new("id").arg("-un")).unwrap_or_default();
        // A job's processes are not the daemons' children: they end first, and by Slurm.
        if self.daemons.len() == 3 && self.ask("scancel", &["--user", &user]).is_ok() {
            let gone =
                |cluster: &Self| cluster.ask("squeue", &["--noheader"]).is_ok_and(|jobs| jobs.is_empty());
            let started = Instant::now();
            while !gone(self) && started.elapsed() < PATIENCE {
                sleep(Duration::from_millis(200));
            }
        }
        for (name, mut child) in std::mem::take(&mut self.daemons).into_iter().rev() {
            if let Err(error) = end(&mut child) {
                eprintln!("{name} could not be ended: {error:#}");
            }
        }
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            eprintln!("{} could not be removed: {error}", self.folder.display());
        }
    }
}

/// Ends a daemon politely, so that it can end its own children; then without manners.
fn end(child: &mut Child) -> Result<()> {
    sh::capture(Command::new("kill").args(["-TERM", &child.id().to_string()]))?;
    let started = Instant::now();
    while child.try_wait()?.is_none() {
        if started.elapsed() > Duration::from_secs(10) {
            child.kill()?;
            child.wait()?;
            break;
        }
        sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// Two ports that nobody listened at a moment ago.
fn free_ports() -> Result<[u16; 2]> {
    let listeners = [TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?];
    let [a, b] = &listeners;
    Ok([a.local_addr()?.port(), b.local_addr()?.port()])
}

/// A folder's name in the temporary one that is ours alone.
pub(crate) fn temporary_folder() -> PathBuf {
    std::env::temp_dir().join(format!("steady-slurm-{}", std::process::id()))
}

/// True when nothing of the cluster is left.
pub(crate) fn is_gone(folder: &Path) -> bool {
    !folder.exists()
}
