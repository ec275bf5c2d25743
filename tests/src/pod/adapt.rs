//! Adapts a manifest to podman 4.3. Only what podman cannot do is changed, for the reason given, and to
//! what a Kubernetes node would make of it.

use serde_json::{Value, json};

/// Appends `number` to the names of the objects. podman names volumes after them, so a later pod with
/// the same names would get the volumes of an earlier one.
pub(super) fn apart(objects: &[Value], number: u32) -> Vec<Value> {
    let mut objects = objects.to_vec();
    for object in &mut objects {
        rename(&mut object["metadata"]["name"], number);
        let Some(pod) = specification(object) else { continue };
        for volume in each(&mut pod["volumes"]) {
            rename(&mut volume["name"], number);
            for name in ["/configMap/name", "/secret/secretName"] {
                volume.pointer_mut(name).into_iter().for_each(|name| rename(name, number));
            }
        }
        for key in ["initContainers", "containers"] {
            for container in each(&mut pod[key]) {
                for mount in each(&mut container["volumeMounts"]) {
                    rename(&mut mount["name"], number);
                }
            }
        }
    }
    objects
}

fn rename(name: &mut Value, number: u32) {
    if let Some(old) = name.as_str() {
        *name = json!(format!("{old}-{number}"));
    }
}

/// Rewrites the objects for podman, with the pod `name` on the node `node`.
pub(super) fn to_podman(objects: &[Value], name: &str, node: &str) -> Vec<Value> {
    let mut objects = objects.to_vec();
    objects.retain(|object| object["kind"] != "Namespace");
    for object in &mut objects {
        // A DaemonSet has one pod per node. podman runs one pod of a Deployment.
        if object["kind"] == "DaemonSet" {
            object["kind"] = json!("Pod");
            object["apiVersion"] = json!("v1");
            object["spec"] = object["spec"]["template"]["spec"].take();
        }
        if object["kind"] == "Deployment" {
            object["spec"]["replicas"] = json!(1);
        }
        // podman would mount a secret still encoded in base64.
        if object["kind"] == "Secret" {
            object["kind"] = json!("ConfigMap");
            object["data"] = object["stringData"].take();
            remove(object, "stringData");
            remove(object, "type");
        }
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default").to_owned();
        let Some(pod) = specification(object) else { continue };
        sidecars_among_containers(pod);
        group_of_volumes(pod);
        // podman would also restart init containers that ended as they should.
        if !each(&mut pod["initContainers"]).is_empty() {
            pod["restartPolicy"] = json!("OnFailure");
        }
        for volume in each(&mut pod["volumes"]) {
            if let Some(name) = volume.pointer("/secret/secretName").cloned() {
                volume["configMap"] = json!({"name": name});
                remove(volume, "secret");
            }
        }
        let fields = [
            ("metadata.namespace", namespace.as_str()),
            ("metadata.name", name),
            ("spec.nodeName", node),
            ("status.podIP", "127.0.0.1"),
        ];
        for key in ["initContainers", "containers"] {
            for container in each(&mut pod[key]) {
                // podman would publish the peer port, which is meant for the cluster's network.
                remove(container, "ports");
                // podman would run probes in a shell, which the image lacks. The tests run them.
                for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
                    remove(container, probe);
                }
                variables(container, &fields);
            }
        }
    }
    objects
}

/// podman does not know sidecars. As ordinary containers they are restarted in the same way.
fn sidecars_among_containers(pod: &mut Value) {
    let Some(starting) = pod["initContainers"].as_array_mut() else { return };
    let is_sidecar = |container: &mut Value| container["restartPolicy"] == "Always";
    let mut containers: Vec<Value> = starting.extract_if(.., is_sidecar).collect();
    for container in &mut containers {
        remove(container, "restartPolicy");
    }
    if starting.is_empty() {
        remove(pod, "initContainers");
    }
    containers.extend_from_slice(each(&mut pod["containers"]));
    pod["containers"] = json!(containers);
}

/// podman does not know `fsGroup`. Kubernetes also adds it to each container's groups, and so does
/// this.
fn group_of_volumes(pod: &mut Value) {
    let context = &mut pod["securityContext"];
    let group = context["fsGroup"].clone();
    if !group.is_null() {
        let mut groups = context["supplementalGroups"].as_array().cloned().unwrap_or_default();
        if !groups.contains(&group) {
            groups.push(group);
        }
        context["supplementalGroups"] = json!(groups);
    }
}

/// podman can set a variable from few fields, and does not expand variables within others.
fn variables(container: &mut Value, fields: &[(&str, &str)]) {
    let mut known: Vec<(String, String)> = Vec::new();
    for variable in each(&mut container["env"]) {
        let field = variable["valueFrom"]["fieldRef"]["fieldPath"].as_str().unwrap_or_default();
        let found = fields.iter().find(|(name, _)| *name == field).map(|(_, value)| *value);
        let mut value = found.or_else(|| variable["value"].as_str()).unwrap_or_default().to_owned();
        for (name, text) in &known {
            value = value.replace(&format!("$({name})"), text);
        }
        let name = variable["name"].as_str().unwrap_or_default().to_owned();
        assert!(!value.is_empty() && !value.contains("$("), "{name} is {value:?} ({field})");
        *variable = json!({"name": name, "value": value});
        known.push((name, value));
    }
}

fn remove(value: &mut Value, key: &str) {
    value.as_object_mut().and_then(|object| object.remove(key));
}

/// The specification of an object's pods.
fn specification(object: &mut Value) -> Option<&mut Value> {
    match object["kind"].as_str()? {
        "Pod" => Some(&mut object["spec"]),
        "Deployment" | "DaemonSet" => Some(&mut object["spec"]["template"]["spec"]),
        _ => None,
    }
}

fn each(list: &mut Value) -> &mut [Value] {
    list.as_array_mut().map_or(&mut [], Vec::as_mut_slice)
}
