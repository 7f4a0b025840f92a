"""What is measured of the cluster, as the verbs judge it: links to the controller's own files, gpuadmin/monitoring/."""
