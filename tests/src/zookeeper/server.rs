//! One ZooKeeper server from Debian's packages `zookeeper` and `default-jre-headless`: its settings,
//! ports and data.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::instance::{Home, Port, Process, copy_folder};

/// ZooKeeper, whose manifest names its dependencies, and a logger that writes to standard error.
const JARS: &str = "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar";

/// Options for a quick start and little memory.
const JAVA: [&str; 7] = [
    "-Xmx128m",
    "-Xshare:auto",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-XX:-UsePerfData",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
];

/// Session timeouts may be as short as a second, and a session ends half a second later at most.
/// Without syncs, since a slow disk would end sessions: tests kill the server, not the machine, and the
/// kernel keeps what a killed server wrote. Files are small, since tests copy them.
const SETTINGS: &str = "\
tickTime=500
initLimit=20
syncLimit=6
minSessionTimeout=1000
maxSessionTimeout=60000
maxClientCnxns=0
preAllocSize=1024
admin.enableServer=false
forceSync=no
4lw.commands.whitelist=*
autopurge.purgeInterval=0
clientPortAddress=127.0.0.1
";

/// The timeout for asking a server for its mode.
const PROBE: Duration = Duration::from_secs(5);

/// A server, running or not. Dropping it kills it.
#[derive(Debug)]
pub(super) struct Server {
    process: Process,
    /// The number of the server in the ensemble, from 1 on.
    id: usize,
    port: Port,
    /// The ports for the other servers: one for followers, one for elections.
    _peer_ports: [Port; 2],
}

impl Server {
    /// The servers of an ensemble. None of them runs yet.
    pub(super) fn of(size: usize) -> Vec<Self> {
        let server = |id| Self {
            process: Process::new("zookeeper", Home::new("zookeeper")),
            id,
            port: Port::reserve(),
            _peer_ports: [Port::reserve(), Port::reserve()],
        };
        let servers: Vec<Self> = (1..=size).map(server).collect();
        let mut peers = String::new();
        // A single server has no elections.
        for Self { id, _peer_ports: [leader, election], .. } in servers.iter().filter(|_| size > 1)
        {
            let (leader, election) = (leader.number(), election.number());
            peers.push_str(&format!("server.{id}=127.0.0.1:{leader}:{election}\n"));
        }
        for server in &servers {
            let (data, port) = (server.data().display().to_string(), server.port());
            let settings = format!("{SETTINGS}dataDir={data}\nclientPort={port}\n{peers}");
            server.process.home().write("zoo.cfg", &settings);
            server.make_data();
        }
        servers
    }

    /// The folder with the server's tree.
    fn data(&self) -> PathBuf {
        self.process.home().data().join("tree")
    }

    fn make_data(&self) {
        let home = self.process.home();
        home.make("data/tree");
        home.write("tree/myid", &self.id.to_string());
    }

    pub(super) fn process(&self) -> &Process {
        &self.process
    }

    pub(super) fn port(&self) -> u16 {
        self.port.number()
    }

    pub(super) fn spawn(&self) {
        let mut command = Command::new("java");
        let temporary = self.process.home().folder().join("tmp");
        command.args(JAVA).arg(format!("-Djava.io.tmpdir={}", temporary.display())).args([
            "-cp",
            JARS,
            "org.apache.zookeeper.server.quorum.QuorumPeerMain",
            "./zoo.cfg",
        ]);
        self.process.spawn(command);
    }

    /// Deletes all data. The server must not run.
    pub(super) fn wipe(&self) {
        std::fs::remove_dir_all(self.data()).expect("its data");
        self.make_data();
    }

    /// Copies the data to a folder of this name. The server must not run.
    pub(super) fn back_up(&self, name: &str) {
        copy_folder(&self.data(), &self.process.home().make(name));
    }

    /// Restores copied data. The server must not run.
    pub(super) fn restore(&self, name: &str) {
        std::fs::remove_dir_all(self.data()).expect("its data");
        let backup = self.process.home().folder().join(name);
        copy_folder(&backup, &self.process.home().make("data/tree"));
    }

    /// `standalone`, `leader` or `follower`; none while the server does not serve.
    pub(super) fn mode(&self) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port())).ok()?;
        stream.set_read_timeout(Some(PROBE)).ok()?;
        stream.write_all(b"srvr").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        answer.lines().find_map(|line| line.strip_prefix("Mode: ")).map(str::to_owned)
    }
}
