import pytest

from hvdprof.collect.identity import Identity, identity_from_environment


@pytest.mark.parametrize(
    ("environment", "identity"),
    [
        (
            {
                "HOROVOD_RANK": "3",
                "HOROVOD_SIZE": "4",
                "HOROVOD_LOCAL_RANK": "1",
                "HOROVOD_LOCAL_SIZE": "2",
                "SLURM_PROCID": "0",
                "SLURM_NTASKS": "1",
            },
            Identity(3, 4, 1, 2),
        ),
        (
            {
                "OMPI_COMM_WORLD_RANK": "1",
                "OMPI_COMM_WORLD_SIZE": "2",
                "OMPI_COMM_WORLD_LOCAL_RANK": "1",
                "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
            },
            Identity(1, 2, 1, 2),
        ),
        (
            {"PMI_RANK": "5", "PMI_SIZE": "8", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "4"},
            Identity(5, 8, 1, 4),
        ),
        ({"PMI_RANK": "5", "PMI_SIZE": "8"}, Identity(5, 8, 0, 1)),
        (
            {
                "PMI_RANK": "5",
                "PMI_SIZE": "8",
                "PALS_RANKID": "5",
                "PALS_LOCAL_RANKID": "1",
                "PALS_LOCAL_SIZE": "4",
            },
            Identity(5, 8, 1, 4),
        ),
        (
            {
                "JSM_NAMESPACE_RANK": "5",
                "JSM_NAMESPACE_SIZE": "8",
                "JSM_NAMESPACE_LOCAL_RANK": "1",
                "JSM_NAMESPACE_LOCAL_SIZE": "4",
            },
            Identity(5, 8, 1, 4),
        ),
        (
            {
                "RANK": "3",
                "WORLD_SIZE": "4",
                "LOCAL_RANK": "1",
                "LOCAL_WORLD_SIZE": "2",
                "SLURM_PROCID": "0",
                "SLURM_NTASKS": "1",
            },
            Identity(3, 4, 1, 2),
        ),
        (
            {"SLURM_PROCID": "2", "SLURM_NTASKS": "4", "SLURM_LOCALID": "2"},
            Identity(2, 4, 2, 1),
        ),
        ({}, None),
        ({"HOROVOD_RANK": "1"}, None),
        ({"HOROVOD_RANK": "x", "HOROVOD_SIZE": "2"}, None),
    ],
)
def test_identity_of_each_launcher(environment, identity):
    assert identity_from_environment(environment) == identity
