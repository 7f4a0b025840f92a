"""What is measured of the cluster, as the verbs judge it: the controller's own files (links to gpuadmin/monitoring/)."""
