//! One member from Debian's package `etcd-server`: its settings, ports and data.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::EtcdOptions;
use crate::instance::{Home, Port, Process, copy_folder};

/// Without syncs: tests kill the member, not the machine, and the kernel keeps what a killed member wrote.
/// The cheapest hash of passwords, since a busy machine takes long for a better one.
const ARGUMENTS: [&str; 4] =
    ["--unsafe-no-fsync", "--bcrypt-cost=4", "--log-level=info", "--logger=zap"];

/// A member, running or not. Dropping it kills it.
#[derive(Debug)]
pub(super) struct Member {
    process: Process,
    name: String,
    port: Port,
    peer_port: Port,
    /// `NAME=URL` of all members.
    cluster: String,
    is_tls: bool,
    arguments: Vec<String>,
}

impl Member {
    /// The members of a cluster. None of them runs yet.
    pub(super) fn of(size: usize, options: &EtcdOptions) -> Vec<Self> {
        let member = |number| Self {
            process: Process::new("etcd", Home::new("etcd")),
            name: format!("m{number}"),
            port: Port::reserve(),
            peer_port: Port::reserve(),
            cluster: String::new(),
            is_tls: options.certificates.is_some(),
            arguments: options.arguments.clone(),
        };
        let mut members: Vec<Self> = (1..=size).map(member).collect();
        let peers = members.iter().map(|member| format!("{}={}", member.name, member.peer_url()));
        let cluster = peers.collect::<Vec<_>>().join(",");
        for member in &mut members {
            member.cluster.clone_from(&cluster);
            if let Some(certificates) = &options.certificates {
                for file in ["ca.pem", "member.pem", "member.key"] {
                    member.process.home().write(file, &certificates.content(file));
                }
                let arguments = [
                    "--client-cert-auth",
                    "--trusted-ca-file=./ca.pem",
                    "--cert-file=./member.pem",
                    "--key-file=./member.key",
                ];
                member.arguments.extend(arguments.map(str::to_owned));
            }
        }
        members
    }

    fn data(&self) -> PathBuf {
        self.process.home().data().join("keys")
    }

    pub(super) fn process(&self) -> &Process {
        &self.process
    }

    pub(super) fn port(&self) -> u16 {
        self.port.number()
    }

    /// Where clients reach it.
    pub(super) fn url(&self) -> String {
        let scheme = if self.is_tls { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}", self.port())
    }

    fn peer_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.peer_port.number())
    }

    pub(super) fn spawn(&self) {
        let mut command = Command::new("etcd");
        let (url, peer_url) = (self.url(), self.peer_url());
        command.args(ARGUMENTS).args(&self.arguments).args([
            format!("--name={}", self.name),
            "--data-dir=./keys".to_owned(),
            format!("--listen-client-urls={url}"),
            format!("--advertise-client-urls={url}"),
            format!("--listen-peer-urls={peer_url}"),
            format!("--initial-advertise-peer-urls={peer_url}"),
            format!("--initial-cluster={}", self.cluster),
        ]);
        self.process.spawn(command);
    }

    /// Deletes all data. The member must not run.
    pub(super) fn wipe(&self) {
        std::fs::remove_dir_all(self.data()).expect("its data");
    }

    /// Replaces the data with a snapshot. The member must not run.
    pub(super) fn restore(&self, snapshot: &Path) {
        self.wipe();
        let restored = tempfile::tempdir().expect("a folder");
        let mut command = Command::new("etcdctl");
        let output = command
            .env("ETCDCTL_API", "3")
            .args(["snapshot", "restore"])
            .arg(snapshot)
            .arg(format!("--name={}", self.name))
            .arg(format!("--data-dir={}", restored.path().join("keys").display()))
            .arg(format!("--initial-advertise-peer-urls={}", self.peer_url()))
            .arg(format!("--initial-cluster={}", self.cluster))
            .output()
            .expect("etcdctl, of Debian's package etcd-client");
        assert!(output.status.success(), "{output:?}");
        // It has to belong to the member's account.
        let home = self.process.home();
        copy_folder(&restored.path().join("keys"), &home.make("data/keys"));
        home.own_all(&self.data());
    }
}
