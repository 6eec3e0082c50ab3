//! What a definition id may look like, so that instance ids stand in paths as they are.

use crate::BusError;

/// Looks whether `definition_id` can be one.
pub(crate) fn check(definition_id: &str) -> Result<(), BusError> {
    let invalid = |reason| Err(BusError::InvalidDefinitionId { reason });
    let bytes = definition_id.len();
    if definition_id.is_empty() {
        return invalid("expected at least one character");
    }
    if bytes > DEFINITION_BYTES_MAX {
        let bytes_max = DEFINITION_BYTES_MAX;
        return Err(BusError::TooLarge { field: "definition_id", bytes, bytes_max });
    }
    if definition_id.contains('~') {
        return invalid("expected no ~, which parts it from the rest of an instance id");
    }
    if definition_id.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return invalid("expected no white space and no control characters");
    }
    if definition_id.contains(RESERVED) {
        return invalid("expected none of # ? / \\ % & = + : @ [ ] \" ' < >");
    }
    Ok(())
}

/// Looks whether `project` can be recorded.
pub(crate) fn check_project(project: Option<&str>) -> Result<(), BusError> {
    match project.map(str::len) {
        Some(bytes) if bytes > PROJECT_BYTES_MAX => {
            Err(BusError::TooLarge { field: "project", bytes, bytes_max: PROJECT_BYTES_MAX })
        }
        _ => Ok(()),
    }
}

/// The longest definition id.
pub(crate) const DEFINITION_BYTES_MAX: usize = 128;

/// The longest project.
const PROJECT_BYTES_MAX: usize = 1_024;

const RESERVED: [char; 16] =
    ['#', '?', '/', '\\', '%', '&', '=', '+', ':', '@', '[', ']', '"', '\'', '<', '>'];
