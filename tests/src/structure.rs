//! Reads from the source of a crate which file uses which. Tests do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, ItemUse, Meta, UseTree};

/// The path of a module, such as `["store", "sql"]`; empty for the crate itself.
type Module = Vec<String>;

/// Which module of a crate uses which. An inline module belongs to its file.
#[derive(Debug, Default)]
pub struct Structure {
    uses: BTreeMap<Module, BTreeSet<Module>>,
}

impl Structure {
    /// Reads a crate, starting at its `lib.rs` or `main.rs`.
    #[must_use]
    pub fn read(root: &Path) -> Self {
        let mut files = BTreeMap::new();
        let folder = root.parent().expect("a folder").to_owned();
        collect(Module::new(), root, folder, &mut files);
        let known: BTreeSet<Module> = files.keys().cloned().collect();
        let uses = files.iter().map(|(module, items)| {
            let mut paths = Paths { module, known: &known, used: BTreeSet::new() };
            items.iter().for_each(|item| paths.visit_item(item));
            paths.used.remove(module);
            (module.clone(), paths.used)
        });
        Self { uses: uses.collect() }
    }

    /// Groups of files that use each other. A module may use its own children, since it re-exports
    /// their items.
    #[must_use]
    pub fn circles(&self) -> Vec<Vec<String>> {
        let mut circles: BTreeSet<Vec<String>> = BTreeSet::new();
        for module in self.uses.keys() {
            let mut circle: Vec<_> = self
                .reachable(module)
                .into_iter()
                .filter(|other| self.reachable(other).contains(module))
                .map(|module| module.join("::"))
                .collect();
            circle.sort();
            if circle.len() > 1 {
                circles.insert(circle);
            }
        }
        circles.into_iter().collect()
    }

    /// Which room uses which. A room is the first part of a module's path.
    #[must_use]
    pub fn rooms(&self) -> BTreeSet<(String, String)> {
        let mut rooms = BTreeSet::new();
        for (module, used) in &self.uses {
            for other in used {
                if let (Some(from), Some(to)) = (module.first(), other.first())
                    && from != to
                {
                    rooms.insert((from.clone(), to.clone()));
                }
            }
        }
        rooms
    }

    /// What the files in one folder, and below it, use outside of it.
    #[must_use]
    pub fn used_below(&self, folder: &[&str]) -> BTreeSet<String> {
        let is_in = |module: &Module| module.iter().zip(folder).filter(|(a, b)| a == b).count();
        let is_in = |module: &Module| is_in(module) == folder.len();
        let inside = self.uses.iter().filter(|(module, _)| is_in(module));
        let used = inside.flat_map(|(_, used)| used).filter(|module| !is_in(module));
        used.map(|module| module.join("::")).collect()
    }

    fn reachable(&self, from: &Module) -> BTreeSet<Module> {
        let (mut seen, mut ahead) = (BTreeSet::new(), vec![from.clone()]);
        while let Some(module) = ahead.pop() {
            for other in self.uses.get(&module).into_iter().flatten() {
                if !other.starts_with(&module) && seen.insert(other.clone()) {
                    ahead.push(other.clone());
                }
            }
        }
        seen
    }
}

fn collect(module: Module, path: &Path, folder: PathBuf, files: &mut BTreeMap<Module, Vec<Item>>) {
    let text = std::fs::read_to_string(path);
    let text = text.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let file = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    for item in &file.items {
        let Item::Mod(ItemMod { attrs, ident, content: None, .. }) = item else { continue };
        if is_test(attrs) {
            continue;
        }
        let name = ident.to_string();
        let mut child = module.clone();
        child.push(name.clone());
        let below = folder.join(&name);
        let (flat, nested) = (folder.join(format!("{name}.rs")), below.join("mod.rs"));
        let path = if flat.exists() { flat } else { nested };
        collect(child, &path, below, files);
    }
    files.insert(module, file.items);
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let Meta::List(list) = &attribute.meta else { return false };
        let tokens = list.tokens.to_string();
        list.path.is_ident("cfg") && (tokens == "test" || tokens.starts_with("all (test ,"))
    })
}

/// Collects the modules that one file uses.
struct Paths<'a> {
    module: &'a Module,
    known: &'a BTreeSet<Module>,
    used: BTreeSet<Module>,
}

impl Paths<'_> {
    /// Adds the module of a path: the longest beginning of the path that is a module.
    fn add(&mut self, path: &[String]) {
        let Some(mut full) = self.full(path) else { return };
        while !full.is_empty() && !self.known.contains(&full) {
            full.pop();
        }
        if !full.is_empty() {
            self.used.insert(full);
        }
    }

    fn full(&self, path: &[String]) -> Option<Module> {
        let (first, mut rest) = path.split_first()?;
        let mut base = match first.as_str() {
            "crate" => Module::new(),
            "self" => self.module.clone(),
            "super" => {
                let mut base = self.module.clone();
                base.pop();
                while let Some((next, further)) = rest.split_first()
                    && next == "super"
                {
                    base.pop();
                    rest = further;
                }
                base
            }
            name => {
                // A child can be named without a prefix.
                let mut child = self.module.clone();
                child.push(name.to_owned());
                return self.known.contains(&child).then(|| {
                    child.extend(rest.iter().cloned());
                    child
                });
            }
        };
        base.extend(rest.iter().cloned());
        Some(base)
    }

    fn add_tree(&mut self, before: &[String], tree: &UseTree) {
        let mut path = before.to_vec();
        match tree {
            UseTree::Path(part) => {
                path.push(part.ident.to_string());
                self.add_tree(&path, &part.tree);
            }
            UseTree::Name(name) => {
                path.push(name.ident.to_string());
                self.add(&path);
            }
            UseTree::Rename(name) => {
                path.push(name.ident.to_string());
                self.add(&path);
            }
            UseTree::Glob(_) => self.add(&path),
            UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.add_tree(before, tree));
            }
        }
    }
}

impl<'ast> Visit<'ast> for Paths<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes = match item {
            Item::Mod(item) => &item.attrs,
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            _ => return visit::visit_item(self, item),
        };
        if !is_test(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        self.add_tree(&[], &item.tree);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let parts: Vec<_> = path.segments.iter().map(|part| part.ident.to_string()).collect();
        if parts.len() > 1 {
            self.add(&parts);
        }
        visit::visit_path(self, path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn structure(files: &[(&str, &str)]) -> Structure {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        Structure::read(&folder.path().join("lib.rs"))
    }

    #[test]
    fn files_that_use_each_other_are_found_however_their_paths_are_written() {
        for uses in ["use super::b::B;", "use crate::b::{self, B};", "fn f() -> crate::b::B {}"] {
            let circle = structure(&[
                ("lib.rs", "mod a; mod b;"),
                ("a.rs", uses),
                ("b/mod.rs", "mod c; pub struct B;"),
                ("b/c.rs", "use crate::a; use super::super::a::f;"),
            ]);
            // `b` only re-exports its child's items, so only the child uses `a`.
            assert!(circle.circles().is_empty(), "{uses}");
            let circle = structure(&[
                ("lib.rs", "mod a; mod b;"),
                ("a.rs", uses),
                ("b.rs", "use crate::a;"),
            ]);
            assert_eq!(circle.circles(), [["a", "b"]], "{uses}");
            assert_eq!(circle.rooms().len(), 2, "{uses}");
        }
    }

    #[test]
    fn what_a_folder_uses_outside_of_it_is_known() {
        let structure = structure(&[
            ("lib.rs", "mod a; mod b;"),
            ("a/mod.rs", "mod c; pub struct A;"),
            ("a/c.rs", "use super::A; use crate::b::B;"),
            ("b.rs", "pub struct B;"),
        ]);
        assert_eq!(structure.used_below(&["a"]), ["b".to_owned()].into());
    }

    #[test]
    fn what_tests_use_does_not_count() {
        let tests = structure(&[
            ("lib.rs", "mod a; mod b; #[cfg(test)] mod c;"),
            ("a.rs", "#[cfg(test)] mod tests { use crate::b; }"),
            ("b.rs", "use crate::a; #[cfg(test)] use crate::c;"),
        ]);
        assert!(tests.circles().is_empty());
        assert_eq!(tests.rooms(), [("b".to_owned(), "a".to_owned())].into());
    }
}
