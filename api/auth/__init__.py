"""Authentication, authorization and sessions."""
