//! Links, addresses, routes, neighbours and namespaces over netlink. No shelling out, no async runtime.
